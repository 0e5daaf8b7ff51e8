/* The verbs of each file, ended by one without a name; main.c has the table of them all. */
#pragma once

#include "cli.h"

extern const WeftVerb weft_create_verbs[];
extern const WeftVerb weft_ls_verbs[];
extern const WeftVerb weft_show_verbs[];
extern const WeftVerb weft_scale_verbs[];
extern const WeftVerb weft_clone_verbs[];
extern const WeftVerb weft_rm_verbs[];
extern const WeftVerb weft_wait_verbs[];
extern const WeftVerb weft_events_verbs[];
extern const WeftVerb weft_queue_verbs[];
extern const WeftVerb weft_checkpoint_verbs[];
extern const WeftVerb weft_checkpoint_file_verbs[];
extern const WeftVerb weft_ssh_verbs[];
extern const WeftVerb weft_run_verbs[];
extern const WeftVerb weft_scp_verbs[];
extern const WeftVerb weft_console_verbs[];
extern const WeftVerb weft_hostfile_verbs[];
extern const WeftVerb weft_top_verbs[];
extern const WeftVerb weft_doctor_verbs[];
extern const WeftVerb weft_clock_verbs[];
extern const WeftVerb weft_audit_verbs[];
extern const WeftVerb weft_backup_verbs[];
extern const WeftVerb weft_site_verbs[];
extern const WeftVerb weft_move_verbs[];
extern const WeftVerb weft_drain_verbs[];
extern const WeftVerb weft_hosts_verbs[];
extern const WeftVerb weft_host_verbs[];
extern const WeftVerb weft_prepare_verbs[];
extern const WeftVerb weft_reservation_verbs[];
extern const WeftVerb weft_template_verbs[];
extern const WeftVerb weft_fabric_verbs[];
extern const WeftVerb weft_harden_verbs[];
extern const WeftVerb weft_take_verbs[];
extern const WeftVerb weft_qos_verbs[];
extern const WeftVerb weft_image_verbs[];
extern const WeftVerb weft_tenant_verbs[];
extern const WeftVerb weft_user_verbs[];
extern const WeftVerb weft_token_verbs[];
extern const WeftVerb weft_usage_verbs[];
extern const WeftVerb weft_version_verbs[];
extern const WeftVerb weft_lab_verbs[];
extern const WeftVerb weft_simulate_verbs[];

/* Sections of the list of verbs. */
typedef struct WeftSection {
    const char *title;
    const WeftVerb *const *files; /* NULL-terminated */
} WeftSection;

extern const WeftSection weft_sections[]; /* ended by one without a title */
extern const GOptionEntry weft_global_options[];

/* Walks all verbs: state begins as { 0 }; NULL at the end. */
typedef struct WeftVerbIter {
    guint section, file, verb;
} WeftVerbIter;
const WeftVerb *weft_verb_next(WeftVerbIter *iter);

/* The verb that the words begin with ("create", or "host add"), and how many words that took. NULL: none. */
const WeftVerb *weft_verb_find(char **words, guint *ret_words);
/* FALSE: an option of every verb that this one refuses. verb NULL: which one it is, is not known yet. */
gboolean weft_verb_takes(const WeftVerb *verb, const GOptionEntry *option);
/* Has that word subverbs? */
gboolean weft_verb_is_group(const char *word);

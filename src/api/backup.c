/* POST /v1/backup: the site in one file. It is made on a thread of its own, and sent from there. */
#include "backup.h"

#include "errors.h"
#include "fields.h"
#include "handlers.h"
#include "request.h"

#include <string.h>
#include <unistd.h>

/* Its own copies: the thread may outlive whoever asked, and the server. */
typedef struct Job {
    WeftRequest *request; /* once it has begun */
    char *store;
    char *site;
    guint8 *secret;
    gsize secret_length;
    char *passphrase;
    int fd;
    guint64 size;
} Job;

/* Never by the task: its last reference may go on the worker, and requests belong to the main thread. */
static void
job_free(gpointer data)
{
    Job *job = data;
    if (job->fd >= 0)
        close(job->fd);
    weft_passphrase_free(job->passphrase);
    explicit_bzero(job->secret, job->secret_length);
    g_free(job->secret);
    g_free(job->store);
    g_free(job->site);
    weft_request_unref(job->request);
    g_free(job);
}

/* thread: a worker */
static void
make(GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
    Job *job = data;
    GError *error = NULL;
    WeftBackupSite site = { job->store, job->site, job->secret, job->secret_length };
    job->fd = weft_backup_make(&site, job->passphrase, &job->size, &error);
    if (error)
        g_task_return_error(task, error);
    else
        g_task_return_boolean(task, TRUE);
}

static void
answer(Job *job, const GError *error)
{
    WeftRequest *request = job->request;
    if (!request->connection)
        return;
    if (error) {
        weft_request_fail(request, error);
        return;
    }
    WeftTxn *txn = weft_txn_new("backup-made");
    weft_txn_tell(txn, "backup-made", NULL, NULL, "%s made a backup", request->principal->name);
    weft_store_commit(request->store, txn, NULL, NULL);
    weft_request_reply(request, weft_reply_file(job->fd, job->size));
    job->fd = -1;
}

static void
made(GObject *source, GAsyncResult *result, gpointer data)
{
    Job *job = data;
    g_autoptr(GError) error = NULL;
    g_task_propagate_boolean(G_TASK(result), &error);
    answer(job, error);
    job_free(job);
}

static void
begin(WeftRequest *request, gpointer data)
{
    Job *job = data;
    job->request = weft_request_ref(request);
    g_autoptr(GTask) task = g_task_new(NULL, NULL, made, job);
    g_task_set_task_data(task, job, NULL);
    g_task_run_in_thread(task, make);
}

gboolean
weft_handle_backup(WeftRequest *request, GError **error)
{
    WeftFields f;
    weft_fields_begin(&f, request->body, "%s", "");
    const char *passphrase = weft_fields_string(&f, "passphrase", WEFT_REQUIRED_TEXT);
    if (!weft_fields_end(&f, error) || !weft_passphrase_check(passphrase, error))
        return FALSE;
    if (!request->options->backup.store)
        return weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE, "this weftd has no store of which a backup can be made");
    Job *job = g_new0(Job, 1);
    const WeftBackupSite *site = &request->options->backup;
    *job = (Job){ .store = g_strdup(site->store),
                  .site = g_strdup(site->site),
                  .secret = g_memdup2(site->secret, site->secret_length),
                  .secret_length = site->secret_length,
                  .passphrase = g_strdup(passphrase),
                  .fd = -1 };
    return weft_request_go_on(request, begin, job, job_free);
}

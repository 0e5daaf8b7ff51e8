/* A file system of one-value files, as sysfs is: what a name holds is told, computed, refused or ignored. */
#pragma once

#include <glib.h>
#include <sys/stat.h>

typedef struct Node Node;
typedef int (*Store)(Node *node, const char *value); /* 0 or a negative errno */
typedef char *(*Show)(const Node *node);             /* NULL: it cannot be read now */

struct Node {
    mode_t type; /* S_IFDIR, S_IFREG, S_IFLNK */
    char *path;
    char *text;          /* a file's value, a link's target */
    Show show;           /* NULL: the text */
    Store store;         /* NULL: only to be read */
    gpointer owner;      /* whose file it is; borrowed */
    guint number;        /* which of its */
    GPtrArray *children; /* names */
    int fault;           /* writing fails with it */
    gboolean ignore;     /* writing has no effect */
};

void tree_init(void);
void tree_free(void);

Node *tree_find(const char *path);
Node *tree_find_format(const char *format, ...) G_GNUC_PRINTF(1, 2);
/* Makes the folders above, too; replaces what is there. */
Node *tree_add(const char *path, mode_t type, const char *text, Store store);
Node *tree_add_file(Store store, const char *text, const char *format, ...) G_GNUC_PRINTF(3, 4);
Node *tree_add_link(const char *target, const char *format, ...) G_GNUC_PRINTF(2, 3);
/* With all below; fine where there is none. */
void tree_drop(const char *path);
void tree_drop_format(const char *format, ...) G_GNUC_PRINTF(1, 2);

/* The value is taken as it is: also a Store. */
int tree_set(Node *node, const char *value);
/* What reading gives, without the end of the line; NULL: nothing. */
char *tree_text(const Node *node);
/* The last part of a link's target; NULL: no link. */
char *tree_target(const Node *node);

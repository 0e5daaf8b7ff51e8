/* Integer linear programs for GLPK, built up entry by entry. */
#pragma once

#include <glib.h>
#include <glpk.h>

typedef struct Model {
    glp_prob *lp;
    GArray *rows, *columns; /* int, from 1 on: index 0 is not used by GLPK */
    GArray *factors;        /* double */
} Model;

typedef enum { EXACT_NO, EXACT_YES, EXACT_UNDECIDED } ExactVerdict;

Model model_new(void);
void model_clear(Model *model);
/* A whole number from 0 to most. */
int model_column(Model *model, double most);
/* type: GLP_UP, at most the bound; GLP_FX, equal to it. */
int model_row(Model *model, int type, double bound);
void model_put(Model *model, int row, int column, double factor);
/* patience: milliseconds. */
ExactVerdict model_solve(Model *model, int patience);

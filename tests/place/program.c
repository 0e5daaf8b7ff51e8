#include "program.h"

Model
model_new(void)
{
    glp_term_out(GLP_OFF);
    Model model = { glp_create_prob(), g_array_new(FALSE, TRUE, sizeof(int)), g_array_new(FALSE, TRUE, sizeof(int)),
                    g_array_new(FALSE, TRUE, sizeof(double)) };
    g_array_set_size(model.rows, 1);
    g_array_set_size(model.columns, 1);
    g_array_set_size(model.factors, 1);
    return model;
}

void
model_clear(Model *model)
{
    glp_delete_prob(model->lp);
    g_array_unref(model->rows);
    g_array_unref(model->columns);
    g_array_unref(model->factors);
}

int
model_column(Model *model, double most)
{
    int column = glp_add_cols(model->lp, 1);
    glp_set_col_kind(model->lp, column, GLP_IV);
    glp_set_col_bnds(model->lp, column, most > 0 ? GLP_DB : GLP_FX, 0, most);
    return column;
}

int
model_row(Model *model, int type, double bound)
{
    int row = glp_add_rows(model->lp, 1);
    glp_set_row_bnds(model->lp, row, type, bound, bound);
    return row;
}

void
model_put(Model *model, int row, int column, double factor)
{
    g_array_append_val(model->rows, row);
    g_array_append_val(model->columns, column);
    g_array_append_val(model->factors, factor);
}

ExactVerdict
model_solve(Model *model, int patience)
{
    glp_load_matrix(model->lp, (int)model->rows->len - 1, (int *)(gpointer)model->rows->data,
                    (int *)(gpointer)model->columns->data, (double *)(gpointer)model->factors->data);
    glp_iocp options;
    glp_init_iocp(&options);
    options.presolve = GLP_ON;
    options.msg_lev = GLP_MSG_OFF;
    options.tm_lim = patience;
    int status = glp_intopt(model->lp, &options);
    if (status == GLP_ENOPFS)
        return EXACT_NO;
    if (status != 0)
        return EXACT_UNDECIDED;
    switch (glp_mip_status(model->lp)) {
    case GLP_OPT:
        return EXACT_YES;
    case GLP_NOFEAS:
        return EXACT_NO;
    default:
        return EXACT_UNDECIDED;
    }
}

/* weft host prepare: on the host itself. Asks no weftd. */
#include "prepare.h"

#include "verbs.h"

static gboolean
run(WeftCli *cli, char **args, GError **error)
{
    return weft_prepare_run(cli->json, &cli->status, error);
}

const WeftVerb weft_prepare_verbs[] = {
    {
        .name = "host prepare",
        .arguments = "[--dry-run]",
        .summary = "make this machine ready to be a host",
        .about =
            "Makes this machine as /etc/weft/host.yaml wishes, as root: virtual functions without a driver of the host, huge\n"
            "pages of each NUMA node; and tells whether IOMMU, ACS and interrupts are as nodes need them. What is so\n"
            "already is left alone, and what is in use is not taken away. Exit status 1 where something is not in order.",
        .examples = "weft host prepare --dry-run\n"
                    "weft host prepare --adapter mlx5_0=16 --pages 2M=0:30720,1:30720",
        .options = weft_prepare_options,
        .run = run,
    },
    { 0 },
};

"""Record: what lies in the results folder and what made it.

REQUIRED INPUTS: {RESULTS}/report.html, which comes last; read are all files that are there
                 {RESULTS}/config.yaml
OUTPUTS:         {RESULTS}/README.md               (every file and column)
                 {RESULTS}/ro-crate-metadata.json  (a Workflow Run RO-Crate)
                 {RESULTS}/workflow/               (the workflow as it was)
"""

from llm_variability.record import VERSION as RECORD_VERSION


rule record:
    input:
        config=f"{RESULTS}/config.yaml",
        page=rules.report.output.page,
    output:
        readme=f"{RESULTS}/README.md",
        crate=f"{RESULTS}/ro-crate-metadata.json",
        snapshot=directory(f"{RESULTS}/workflow"),
    log:
        f"{RESULTS}/logs/record.log",
    benchmark:
        f"{RESULTS}/benchmarks/record.tsv"
    conda:
        ENVIRONMENT
    params:
        folder=subpath(output.crate, parent=True),
        version=RECORD_VERSION,
    shell:
        "python -m llm_variability.record" " --log {log:q}" " --results {params.folder:q}"

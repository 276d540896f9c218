"""Stage 5, the report: tables as CSV, figures, and one self-contained HTML page.

    python -m llm_variability.report heatmap    beta heatmaps of one model and encoder, by test
    python -m llm_variability.report cosine     raw mean cosine by group and temperature
    python -m llm_variability.report models     figures of all models of a study and encoder
    python -m llm_variability.report lengths    length of the answers of all models of a study
    python -m llm_variability.report tables     every table of the page as CSV
    python -m llm_variability.report page       the page

and of studies of code and of personas: code-figures, code-heatmaps, code-tables, persona-figures,
persona-tables.

`VERSION` is a parameter of the rules of figures and tables: raise it when these change in
substance. The page is rendered again by itself when a file of this package changes (`page_files`).
"""

VERSION = "6"

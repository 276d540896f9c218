"""The contracts of all CSV files that a report may have."""

from __future__ import annotations

from llm_variability.report.code.schemas import CODE_REPORT_TABLES
from llm_variability.report.personas.schemas import PERSONA_REPORT_TABLES
from llm_variability.report.schemas import DIAGNOSTICS, REPORT_TABLES
from llm_variability.table_contract import Table

CSV_TABLES: dict[str, Table] = {
    **REPORT_TABLES,
    **CODE_REPORT_TABLES,
    **PERSONA_REPORT_TABLES,
    DIAGNOSTICS.name: DIAGNOSTICS,
}

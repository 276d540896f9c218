"""The chart library as one script."""

from __future__ import annotations

import vl_convert

from llm_variability.report.scripts import Script


def load_library() -> Script:
    """Give vega-embed, with Vega and Vega-Lite in it, as a script that sets `window.vegaEmbed`."""
    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return Script("vega-embed", bundle)


def library_versions() -> dict[str, str]:
    """Give the version of each part of the library."""
    return {
        "vega": vl_convert.get_vega_version(),
        "vega-lite": vl_convert.get_vegalite_versions()[-1],
        "vega-embed": vl_convert.get_vega_embed_version(),
    }

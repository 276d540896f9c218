"""Charts of the page that answer questions: Vega-Lite specifications, and the data behind them.

Vega-Lite draws them, through Altair, with the library inside the page (vl-convert ships it). It
was chosen over Plotly and Bokeh since it draws SVG, whose every mark carries words for screen
readers and can be printed, and runs without `eval`, so that the page can forbid scripts in texts.
`benchmarks/page.py` tells what it adds to the page.

    library     the library as one script
    explorer    what a chart is made of: rows by dimension, switches, what a reader is told
    drawing     what specifications have in common: panels, squares, colours
    estimates   contrasts of groups over temperature x top-p
    curves      similarity of code over the rate of change, sensitivity over temperature x top-p
    matrices    similarity, contrasts, features and guesses by persona

`scripts/explorer.js` holds the switches, the words and the keyboard.
"""

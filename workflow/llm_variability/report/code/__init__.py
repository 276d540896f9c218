"""The report on studies of code: figures, tables, and their section of the page.

names, schemas           what figures and CSV files are called and hold; rules read these
figures, heatmap         drawn
tables                   the CSV files, from the stages' tables
rows, statements, alarms tables, sentences and warnings of the page
section                  puts one study's section together
"""

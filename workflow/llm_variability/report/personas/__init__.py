"""The report on studies of personas: figures, tables, and their section of the page.

names, schemas            what figures and CSV files are called and hold; rules read these
looks                     colours, sizes and names that all figures share
network, map, charts, matrices, figures
                          drawn; `figures` reads the tables and hands them on
tables                    the CSV files, from the stages' tables
rows, statements, alarms  tables, sentences and warnings of the page
excerpts, portraits       the table of what each persona asks for and gets, with excerpts
section                   puts one study's section together
"""

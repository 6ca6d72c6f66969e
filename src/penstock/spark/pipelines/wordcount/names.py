"""The topics of the word count. Pure; a generator needs no Spark to know them."""

LINES = "wordcount.lines"
COUNTS = "wordcount.counts"

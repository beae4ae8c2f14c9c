"""The report on a culprit: title, text of the issue, and what it leaves out."""

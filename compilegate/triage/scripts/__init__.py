"""Scripts that show a culprit with torch alone, and the processes that run them."""

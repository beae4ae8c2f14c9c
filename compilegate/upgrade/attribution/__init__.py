"""Attribution: which distribution makes a case worse, found in environments between two."""

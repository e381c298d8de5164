"""What a person asks for, one file each. Joins the rooms below; the command line and CI call it."""

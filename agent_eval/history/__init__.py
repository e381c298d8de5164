"""What earlier runs of a branch counted, case by case: records, their key, and where they are kept."""

"""What people read: comment, full report, markdown file, terminal. Values in, text out."""

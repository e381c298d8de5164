"""What people read: pull request comment, job summary, markdown file, terminal. Values in, text out."""

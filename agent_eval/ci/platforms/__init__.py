"""The CI platforms that a job can run on."""

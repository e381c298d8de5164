"""Write an evidence pack in formats that other tools read: JUnit, CSV, OpenTelemetry."""

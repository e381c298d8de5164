"""The one retrying HTTP session: back-off, rate limits, bounded answers, no leaked credentials."""

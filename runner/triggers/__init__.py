"""What starts runs by itself: forms, webhooks, schedules, mailboxes, polls and events."""

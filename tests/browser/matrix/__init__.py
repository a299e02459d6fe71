"""Every page in every state, width and colour: nothing is too wide, unreadable or too wordy."""

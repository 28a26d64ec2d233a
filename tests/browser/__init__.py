"""The pages in a real browser: headless Chromium, where this computer has one."""

"""The product against real servers that the tests start themselves, judged by clients that are not ours."""

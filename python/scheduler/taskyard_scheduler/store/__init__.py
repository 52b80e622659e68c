"""Where the scheduler's state is kept. The only package with SQL in it; `port` says what it promises."""

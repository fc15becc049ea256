"""Where rows come from: splits of files, replays, the heartbeat."""

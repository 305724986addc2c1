"""Parts of a decoder's graph, one file each: functions that add the nodes of a block to a builder."""

"""Whatever is written into a file or said by an agent or a judge: no crash, nothing over 2 s or 200
MB."""

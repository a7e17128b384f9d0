"""What topics and the cluster may have set: Kafka's tables, types and what follows from them."""

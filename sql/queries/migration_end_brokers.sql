-- Let whoever is silent learn from his next heartbeat that he is a broker no more.
UPDATE streamhouse_internal.brokers SET incarnation = gen_random_uuid()

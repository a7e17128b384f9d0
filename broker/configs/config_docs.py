"""What a broker config is for that no other program reads (see storage/configs/config_docs.py)."""

from typing import Final

from storage.configs.config_docs import NO_REPLICAS

BROKER_DOCS: Final = {
    "allow.everyone.if.no.acl.found": "Whether a resource of which no ACL speaks is open to all.",
    "authorizer.class.name": "Whether ACLs decide who may do what: the name of Kafka's"
    " authorizer, or empty for no ACLs.",
    "connection.failed.authentication.delay.ms": "How long a client that failed to authenticate"
    " waits for the end of its connection.",
    "connections.max.reauth.ms": "How long an authentication by SASL holds; 0 is as long as the"
    " connection, or as its token.",
    "sasl.enabled.mechanisms": "The SASL mechanisms that clients may use. PLAIN compares with the"
    " SCRAM credentials.",
    "sasl.oauthbearer.clock.skew.seconds": "By how much the clock that dated a token may differ.",
    "sasl.oauthbearer.expected.audience": "The audiences of which a token has to be for one.",
    "sasl.oauthbearer.expected.issuer": "Who has to have issued a token.",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": "How often the keys are read again that tokens"
    " are checked with.",
    "sasl.oauthbearer.jwks.endpoint.url": "Where the keys are (JWKS): an https:// URL, or"
    " file:///PATH.",
    "sasl.oauthbearer.scope.claim.name": "The claim of a token that has its scope.",
    "sasl.oauthbearer.sub.claim.name": "The claim of a token that has the user's name.",
    "sasl.server.max.receive.size": "The largest request in bytes of a client that has not yet"
    " authenticated.",
    "ssl.cipher.suites": "The ciphers for TLS 1.2 by OpenSSL's names; empty for its choice.",
    "ssl.client.auth": "Whether clients of SSL listeners need a certificate: none, requested or"
    " required.",
    "ssl.enabled.protocols": "The versions of TLS that clients may use.",
    "ssl.keystore.location": "A PEM file with the private key and the certificates of this broker;"
    " a change of it counts for new connections.",
    "ssl.keystore.type": "The format of ssl.keystore.location.",
    "ssl.principal.mapping.rules": "How the subject of a client's certificate becomes a user's"
    " name (KIP-371).",
    "ssl.truststore.location": "A PEM file with the authorities that clients' certificates have to"
    " be of; a change of it counts for new connections.",
    "ssl.truststore.type": "The format of ssl.truststore.location.",
    "super.users": "Principals that may do everything, such as User:admin;User:operator. Where ACLs"
    " decide, they create the first ones.",
    "auto.create.topics.enable": "Whether a topic that a client asks for comes into being.",
    "broker.id": "The former name of node.id.",
    "advertised.listeners": "Where clients are told to find this broker (--advertise).",
    "listeners": "Where this broker listens (--listen).",
    "log.dirs": "The object store that holds all records (--store).",
    "broker.rack": "The rack or zone that this broker is in.",
    "confluent.missing.id.cache.ttl.sec": "How long the broker remembers that a schema is not"
    " registered.",
    "confluent.schema.registry.max.cache.size": "Answers of the schema registry that the broker"
    " remembers, of each kind.",
    "confluent.schema.registry.request.timeout.ms": "How long the broker waits for an answer of the"
    " schema registry.",
    "confluent.schema.registry.url": "Where the schema registry is, for topics with"
    " confluent.value.schema.validation or confluent.key.schema.validation; several URLs are tried"
    " in turn. STREAMHOUSE_SCHEMA_REGISTRY__USER and __PASSWORD log in.",
    "confluent.schema.validation.on.registry.failure": "What happens to records whose schema is not"
    " known while the schema registry does not answer: refuse has clients repeat them, accept"
    " appends them unchecked.",
    "connections.max.idle.ms": "A connection without traffic is closed after this time; -1"
    " is never.",
    "controller.quota.window.num": "Samples over which controller_mutation_rate is averaged: a"
    " client may use what is allowed in all of them at once.",
    "controller.quota.window.size.seconds": "How long one of these samples is.",
    "default.replication.factor": "What a topic reports that is created without a replication"
    " factor." + NO_REPLICAS,
    "delete.topic.enable": "Whether topics can be deleted.",
    "fetch.max.bytes": "The most bytes that one Fetch response holds, its first batch apart.",
    "group.consumer.assignors": "The assignors that consumer groups may use, the default one"
    " first.",
    "group.consumer.heartbeat.interval.ms": "How often members of consumer groups (KIP-848) are to"
    " send a heartbeat.",
    "group.consumer.max.heartbeat.interval.ms": "The most that"
    " group.consumer.heartbeat.interval.ms may be.",
    "group.consumer.max.session.timeout.ms": "The most that group.consumer.session.timeout.ms may"
    " be.",
    "group.consumer.max.size": "The most members of one consumer group (KIP-848).",
    "group.consumer.min.heartbeat.interval.ms": "The least that"
    " group.consumer.heartbeat.interval.ms may be.",
    "group.consumer.min.session.timeout.ms": "The least that group.consumer.session.timeout.ms may"
    " be.",
    "group.consumer.session.timeout.ms": "A member of a consumer group (KIP-848) that is silent for"
    " this time is taken out.",
    "group.initial.rebalance.delay.ms": "How long an empty group waits for more members before"
    " its first rebalance.",
    "group.max.session.timeout.ms": "The longest session timeout that a member may ask for.",
    "group.max.size": "The most members of one group.",
    "group.min.session.timeout.ms": "The shortest session timeout that a member may ask for.",
    "log.cleaner.enable": "Whether this broker compacts topics.",
    "log.retention.check.interval.ms": "How often records past their retention are looked for.",
    "max.request.partition.size.limit": "The most partitions in one DescribeTopicPartitions"
    " response (KIP-966).",
    "node.id": "The number of this broker in its cluster.",
    "num.partitions": "Partitions of a topic that is created without a number of them.",
    "offset.metadata.max.bytes": "The longest text that may go with a committed offset.",
    "offsets.retention.check.interval.ms": "How often offsets past their retention are looked for.",
    "offsets.retention.minutes": "How long the offsets of a group without members are kept.",
    "queued.max.request.bytes": "Bytes of requests in memory above which producers' sockets are no"
    " longer read, and from an eighth more on no socket; -1 is no limit.",
    "quota.window.num": "Samples over which client quotas are averaged: a client may use what is"
    " allowed in all but one of them at once.",
    "quota.window.size.seconds": "How long one of these samples is; the most that a client over its"
    " request_percentage is muted at a time.",
    "socket.listen.backlog.size": "Connections that may wait to be accepted.",
    "socket.request.max.bytes": "The largest request that is accepted.",
    "telemetry.max.bytes": "The most bytes that a client may push of its metrics at once (KIP-714),"
    " as they are sent and when they are decompressed.",
    "transaction.max.timeout.ms": "The longest that a producer may ask for its transactions to be"
    " open.",
    "transactional.id.expiration.ms": "How long a transactional id is kept that is not used.",
}

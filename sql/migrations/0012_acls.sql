-- ACLs, for people to look at.

-- Only kinds that hold no secret are shown; ACLs have a view of their own.
CREATE OR REPLACE VIEW streamhouse.entity_configs AS
SELECT kind, name, configs
FROM streamhouse_internal.entity_configs
WHERE kind IN ('broker', 'client-metrics', 'client-quota', 'group') AND configs <> '{}';

-- name and rule: see broker/acls.py. A host that is not an ip address is quoted as in a URL.
CREATE VIEW streamhouse.acls AS
SELECT
    split_part(e.name, ':', 1) AS resource_type,
    split_part(e.name, ':', 2) AS pattern_type,
    regexp_replace(e.name, '^[^:]*:[^:]*:', '') AS name,
    regexp_replace(r.rule, '^[^ ]* [^ ]* [^ ]* ', '') AS principal,
    split_part(r.rule, ' ', 3) AS host,
    split_part(r.rule, ' ', 2) AS operation,
    split_part(r.rule, ' ', 1) AS permission
FROM streamhouse_internal.entity_configs AS e
CROSS JOIN LATERAL jsonb_object_keys(e.configs) AS r (rule)
WHERE e.kind = 'acl';

COMMENT ON VIEW streamhouse.entity_configs IS
    'What is set of brokers, groups, client metrics and quotas while the cluster runs';
COMMENT ON VIEW streamhouse.acls IS
    'Who may, or may not, do what with which resources, if the brokers have an authorizer';

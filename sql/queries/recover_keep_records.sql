-- Set configs of the whole cluster that are not set yet; return all that are, with version 1.
-- $1 configs jsonb.
INSERT INTO streamhouse_internal.entity_configs AS e (kind, name, configs, version)
VALUES ('broker', '', $1::jsonb, 1)
ON CONFLICT (kind, name) DO UPDATE SET configs = excluded.configs || e.configs, version = 1
RETURNING e.configs

"""The tables, and the functions that write them: one call for each write, one transaction for many.

A change of this schema first adds and removes only a version later: `min_reader` is the oldest schema version whose builds may
still use the tables. Functions are replaced in place; one that needs other arguments gets a new name.
"""

VERSION = 4
MIN_READER = 1

FENCED, GONE, EXISTS, MOVED, OTHER_GROUP, LEASE_ENDED = "UD001", "UD002", "UD003", "UD004", "UD005", "UD006"

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE about(
        only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
        version int NOT NULL,
        min_reader int NOT NULL,
        moved_to text                          -- nobody writes here any more
    );
    CREATE TABLE workers(                      -- processes that write, or listen
        id uuid PRIMARY KEY,
        host text NOT NULL,
        process text NOT NULL,                 -- by which those on the same machine can tell whether it lives
        pid int NOT NULL,
        seen timestamptz NOT NULL,             -- by the database's clock, like every time of a lease
        lease interval NOT NULL
    );
    CREATE TABLE groups(worker uuid PRIMARY KEY, last bigint NOT NULL);  -- the last transaction of each worker
    CREATE TABLE conversations(
        number bigint PRIMARY KEY,             -- 63 bits of the id: the key of the other tables
        id text NOT NULL UNIQUE,
        epoch int NOT NULL,
        last_seq int NOT NULL,
        created_at float8 NOT NULL,
        updated_at float8 NOT NULL,
        archived boolean NOT NULL DEFAULT false,
        summary bytea NOT NULL,
        owner text NOT NULL DEFAULT 'local',
        digest bytea NOT NULL,
        seal bytea NOT NULL,
        letters bigint NOT NULL DEFAULT 0      -- the number of the last one
    );
    CREATE INDEX conversations_by_activity ON conversations(archived, updated_at, number);
    CREATE TABLE records(
        conversation bigint NOT NULL,
        seq int NOT NULL,
        parent int NOT NULL,
        turn text NOT NULL,
        at float8 NOT NULL,
        data bytea NOT NULL,
        digest bytea,
        PRIMARY KEY(conversation, seq)
    );
    CREATE TABLE older_digests(conversation bigint PRIMARY KEY, digests bytea NOT NULL);
    CREATE TABLE said(conversation bigint NOT NULL, number int NOT NULL, data bytea NOT NULL, PRIMARY KEY(conversation, number));
    CREATE TABLE inbox(conversation bigint NOT NULL, number bigint NOT NULL, op bytea NOT NULL, PRIMARY KEY(conversation, number));
    CREATE TABLE claims(conversation bigint PRIMARY KEY, id text NOT NULL, worker uuid NOT NULL, since timestamptz NOT NULL);
    CREATE INDEX claims_by_worker ON claims(worker);
    CREATE TABLE spending(                     -- what people with a token of their own have used
        name text NOT NULL,
        day text NOT NULL,
        tokens bigint NOT NULL,
        cost_usd float8 NOT NULL,
        requests bigint NOT NULL,
        PRIMARY KEY(name, day)
    );
    """,
    # The search index: words of texts, added by the process that searches.
    """
    CREATE TABLE texts(
        place bigint NOT NULL,                 -- rises with time
        conversation bigint NOT NULL,
        seq int NOT NULL,
        at float8 NOT NULL,
        role text NOT NULL,
        folder text NOT NULL,
        words tsvector NOT NULL,
        PRIMARY KEY(conversation, seq)
    );
    CREATE INDEX texts_by_words ON texts USING gin(words);
    CREATE INDEX texts_by_place ON texts(place);
    CREATE TABLE indexed(conversation bigint PRIMARY KEY, upto int NOT NULL, folder text NOT NULL);
    """,
    # Which host has the files of a conversation, and which process serves it.
    """
    CREATE TABLE hosts(
        name text PRIMARY KEY,
        disk uuid NOT NULL,                    -- of the folder whose lock its worker holds
        worker uuid,                           -- the process that serves it
        address text NOT NULL,
        state text NOT NULL,                   -- ready, or draining
        seen timestamptz NOT NULL,             -- when its worker came, or left
        lease interval NOT NULL
    );
    CREATE TABLE workspaces(
        host text NOT NULL,
        path text NOT NULL,
        kind text NOT NULL DEFAULT 'folder',
        PRIMARY KEY(host, path)
    );
    CREATE INDEX workspaces_by_path ON workspaces(path);
    CREATE TABLE beginnings(                   -- conversations that front ends want to have begun
        conversation bigint PRIMARY KEY,
        id text NOT NULL,
        path text NOT NULL,
        host text,                             -- none yet: no worker has room
        asked timestamptz NOT NULL,
        op bytea NOT NULL,
        refused text                           -- why it was not
    );
    ALTER TABLE conversations ADD COLUMN host text, ADD COLUMN folder text;  -- none: whoever claims it first has it
    CREATE INDEX conversations_by_workspace ON conversations(host, folder);
    CREATE INDEX workers_by_host ON workers(host);
    """,
    # In which processes somebody could answer the questions of a conversation.
    """
    CREATE TABLE attended(conversation bigint NOT NULL, worker uuid NOT NULL, PRIMARY KEY(conversation, worker));
    CREATE INDEX attended_by_worker ON attended(worker);
    CREATE TABLE ended(                        -- names that mean nothing any more at any server, such as logins
        kind text NOT NULL,
        name text NOT NULL,
        made bigint NOT NULL,                  -- when the name was made, in seconds since the epoch
        at timestamptz NOT NULL,
        PRIMARY KEY(kind, name)
    );
    CREATE INDEX ended_by_time ON ended(at);
    """,
)

# Made again by each `store init`, in this order.
FUNCTIONS = """
CREATE OR REPLACE FUNCTION u_refuse(code text, why text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = code, MESSAGE = why;
END $$;

CREATE OR REPLACE FUNCTION u_alive(w uuid) RETURNS boolean LANGUAGE sql VOLATILE AS
    'SELECT EXISTS (SELECT 1 FROM workers WHERE id = w AND seen + lease > clock_timestamp())';

-- Whether somebody serves it. One that was ended properly counts as there for a while: it is being started anew, perhaps.
CREATE OR REPLACE FUNCTION u_there(name_ text) RETURNS boolean LANGUAGE sql VOLATILE AS
    'SELECT EXISTS (SELECT 1 FROM hosts h LEFT JOIN workers w ON w.id = h.worker
        WHERE h.name = name_ AND greatest(w.seen + w.lease, h.seen + h.lease) > clock_timestamp())';

-- One channel for each host: a database with other tables of ours, and every other host, wakes nobody here.
CREATE OR REPLACE FUNCTION u_channel(host text) RETURNS text LANGUAGE sql STABLE AS
    $$ SELECT 'understudy_' || 'about'::regclass::oid || '_' || left(md5(host), 16) $$;

-- Whoever serves that host has something to do. The first word stands where others name the process that says it.
CREATE OR REPLACE FUNCTION u_hint_work(host text, name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify(u_channel(host), 'left ' || name);
END $$;

CREATE OR REPLACE FUNCTION u_register(w uuid, host_ text, process_ text, pid_ int, lease_ float8) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM workers WHERE seen + lease < clock_timestamp() - interval '1 day';
    DELETE FROM groups g WHERE NOT EXISTS (SELECT 1 FROM workers WHERE id = g.worker) AND g.worker <> w;
    DELETE FROM attended a WHERE NOT EXISTS (SELECT 1 FROM workers WHERE id = a.worker);
    INSERT INTO workers VALUES (w, host_, process_, pid_, clock_timestamp(), make_interval(secs => lease_)) ON CONFLICT DO NOTHING;
    INSERT INTO groups VALUES (w, 0) ON CONFLICT DO NOTHING;
END $$;

-- The first of every transaction. It counts only behind the one that its worker believes to be the last: a transaction that was
-- sent twice, because nobody heard what became of it, is done once.
CREATE OR REPLACE FUNCTION u_group(w uuid, before bigint, mine bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE place text;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(7264, 'about'::regclass::oid::int);  -- whoever moves all of it away waits for us
    SELECT moved_to INTO place FROM about;
    IF place IS NOT NULL THEN PERFORM u_refuse('UD004', place); END IF;
    UPDATE groups SET last = mine WHERE worker = w AND last = before;
    IF NOT FOUND THEN PERFORM u_refuse('UD005', 'another transaction'); END IF;
END $$;

-- Several conversations, always in one order: two transactions that write to the same ones cannot wait for each other.
CREATE OR REPLACE FUNCTION u_lock(numbers bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM conversations WHERE number = ANY(numbers) ORDER BY number FOR NO KEY UPDATE;
END $$;

-- What stands elsewhere is claimed by nobody but processes of that host.
CREATE OR REPLACE FUNCTION u_claim_here(c bigint, name text, w uuid, OUT taken boolean, OUT epoch_ int, OUT last_seq_ int,
    OUT letters_ boolean, OUT digest_ bytea, OUT seal_ bytea, OUT host_ text, OUT process_ text, OUT pid_ int, OUT since_ float8,
    OUT worker_ uuid, OUT elsewhere_ boolean, OUT address_ text, OUT there_ boolean)
    LANGUAGE plpgsql AS $$
DECLARE mine text;
BEGIN
    IF NOT u_alive(w) THEN PERFORM u_refuse('UD006', 'the lease has ended'); END IF;
    SELECT host INTO mine FROM workers WHERE id = w;
    -- The conversation is locked before its claim, as u_append and u_move_away do; nobody can move it meanwhile.
    SELECT host INTO host_ FROM conversations WHERE number = c FOR NO KEY UPDATE;
    elsewhere_ := host_ IS NOT NULL AND host_ <> mine;
    IF elsewhere_ THEN
        taken := false;
        there_ := u_there(host_);
        SELECT address INTO address_ FROM hosts h WHERE h.name = host_;
        RETURN;
    END IF;
    INSERT INTO claims AS k VALUES (c, name, w, clock_timestamp())
        ON CONFLICT (conversation) DO UPDATE SET worker = w, since = clock_timestamp() WHERE k.worker = w OR NOT u_alive(k.worker);
    taken := FOUND;
    IF NOT taken THEN
        SELECT x.host, x.process, x.pid, extract(epoch FROM k.since), k.worker INTO host_, process_, pid_, since_, worker_
            FROM claims k LEFT JOIN workers x ON x.id = k.worker WHERE k.conversation = c;
        RETURN;
    END IF;
    -- From here on whoever had it before writes nothing more.
    UPDATE conversations SET epoch = epoch + 1, host = coalesce(host, mine) WHERE number = c
        RETURNING epoch - 1, last_seq, digest, seal INTO epoch_, last_seq_, digest_, seal_;
    letters_ := EXISTS (SELECT 1 FROM inbox WHERE conversation = c);
END $$;

-- The same, for builds that know no hosts.
CREATE OR REPLACE FUNCTION u_claim(c bigint, name text, w uuid, OUT taken boolean, OUT epoch_ int, OUT last_seq_ int,
    OUT letters_ boolean, OUT digest_ bytea, OUT seal_ bytea, OUT host_ text,
    OUT process_ text, OUT pid_ int, OUT since_ float8, OUT worker_ uuid)
    LANGUAGE sql VOLATILE AS
    'SELECT taken, epoch_, last_seq_, letters_, digest_, seal_, host_, process_, pid_, since_, worker_
        FROM u_claim_here(c, name, w)';

CREATE OR REPLACE FUNCTION u_release(c bigint, w uuid) RETURNS void LANGUAGE sql AS
    'DELETE FROM claims WHERE conversation = c AND worker = w';

CREATE OR REPLACE FUNCTION u_leave(w uuid) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE freed text[];
BEGIN
    WITH gone AS (DELETE FROM claims WHERE worker = w RETURNING id) SELECT array_agg(id) INTO freed FROM gone;
    UPDATE hosts SET worker = NULL, seen = clock_timestamp() WHERE worker = w;
    DELETE FROM workers WHERE id = w;
    DELETE FROM groups WHERE worker = w;
    DELETE FROM attended WHERE worker = w;
    RETURN coalesce(freed, '{}');
END $$;

CREATE OR REPLACE FUNCTION u_open(c bigint, name text, w uuid, e int, last int, made float8, at_ float8, summary_ bytea,
    owner_ text, digest_ bytea, seal_ bytea, keeps boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO conversations(number, id, epoch, last_seq, created_at, updated_at, summary, owner, digest, seal, host)
        VALUES (c, name, e, last, made, at_, summary_, owner_, digest_, seal_, (SELECT host FROM workers WHERE id = w))
        ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN PERFORM u_refuse('UD003', 'it is there already'); END IF;
    IF keeps THEN  -- nobody could know of it, so the claim on it is asked for with its first record
        INSERT INTO claims VALUES (c, name, w, clock_timestamp()) ON CONFLICT DO NOTHING;
    ELSE  -- or it goes back with it
        DELETE FROM claims WHERE conversation = c AND worker = w;
    END IF;
END $$;

CREATE OR REPLACE FUNCTION u_append(c bigint, w uuid, e int, before int, last int, at_ float8, summary_ bytea, digest_ bytea,
    seal_ bytea, clears boolean, takes bigint, releases boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE conversations SET last_seq = last, updated_at = greatest(updated_at, at_), summary = summary_, digest = digest_,
        seal = coalesce(seal_, seal) WHERE number = c AND epoch = e AND last_seq = before;
    IF NOT FOUND THEN PERFORM u_refuse('UD001', 'it has been taken over'); END IF;
    IF clears THEN DELETE FROM said WHERE conversation = c; END IF;
    IF takes > 0 THEN DELETE FROM inbox WHERE conversation = c AND number <= takes; END IF;
    IF releases THEN DELETE FROM claims WHERE conversation = c AND worker = w; END IF;
END $$;

CREATE OR REPLACE FUNCTION u_records(c bigint, seqs int[], parents int[], turns text[], ats float8[], datas bytea[],
    digests bytea[])
    RETURNS void LANGUAGE sql AS
    'INSERT INTO records SELECT c, * FROM unnest(seqs, parents, turns, ats, datas, digests)';

CREATE OR REPLACE FUNCTION u_said(c bigint, e int, adds boolean, printed bytea, piece bytea) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- The row is locked: what is added comes before or after a record that clears it, never beside it.
    PERFORM 1 FROM conversations WHERE number = c AND epoch <= e FOR NO KEY UPDATE;
    IF NOT FOUND THEN RETURN; END IF;
    IF NOT adds THEN DELETE FROM said WHERE conversation = c; END IF;
    IF printed IS NOT NULL THEN
        INSERT INTO said VALUES (c, 0, printed) ON CONFLICT (conversation, number) DO UPDATE SET data = printed;
    END IF;
    IF piece IS NOT NULL THEN
        INSERT INTO said SELECT c, coalesce(max(number), 0) + 1, piece FROM said WHERE conversation = c;
    END IF;
END $$;

-- Letters are numbered under the lock of their conversation, so that whoever has read one has read all before it.
CREATE OR REPLACE FUNCTION u_post(c bigint, op_ bytea) RETURNS void LANGUAGE plpgsql AS $$
DECLARE next bigint;
BEGIN
    UPDATE conversations SET letters = letters + 1 WHERE number = c RETURNING letters INTO next;
    IF NOT FOUND THEN PERFORM u_refuse('UD002', 'it is not there'); END IF;
    INSERT INTO inbox VALUES (c, next, op_);
    PERFORM u_hint_work(host, id) FROM conversations WHERE number = c AND host IS NOT NULL;
END $$;

CREATE OR REPLACE FUNCTION u_archive(c bigint, archived_ boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE conversations SET archived = archived_ WHERE number = c;
    IF NOT FOUND THEN PERFORM u_refuse('UD002', 'it is not there'); END IF;
END $$;

CREATE OR REPLACE FUNCTION u_seal(c bigint, last int, digest_ bytea, seal_ bytea) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE conversations SET seal = seal_ WHERE number = c AND last_seq = last AND digest = digest_;
    IF NOT FOUND THEN PERFORM u_refuse('UD001', 'it has been taken over'); END IF;
END $$;

CREATE OR REPLACE FUNCTION u_spend(name_ text, day_ text, tokens_ bigint, usd float8, requests_ bigint) RETURNS void
    LANGUAGE sql AS $$
    INSERT INTO spending AS s VALUES (name_, day_, tokens_, usd, requests_) ON CONFLICT (name, day) DO UPDATE SET
        tokens = s.tokens + tokens_, cost_usd = s.cost_usd + usd, requests = s.requests + requests_;
$$;

CREATE OR REPLACE FUNCTION u_delete(c bigint) RETURNS void LANGUAGE sql AS $$
    WITH gone AS (DELETE FROM conversations WHERE number = c RETURNING host, folder)
        DELETE FROM workspaces s USING gone WHERE s.host = gone.host AND s.path = gone.folder AND NOT EXISTS
            (SELECT 1 FROM conversations v WHERE v.host = s.host AND v.folder = s.path AND v.number <> c);
    DELETE FROM records WHERE conversation = c;
    DELETE FROM said WHERE conversation = c;
    DELETE FROM older_digests WHERE conversation = c;
    DELETE FROM inbox WHERE conversation = c;
    DELETE FROM texts WHERE conversation = c;
    DELETE FROM attended WHERE conversation = c;
    DELETE FROM indexed WHERE conversation = c;
$$;

CREATE OR REPLACE FUNCTION u_attend(c bigint, w uuid, is_attended boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF is_attended THEN
        INSERT INTO attended VALUES (c, w) ON CONFLICT DO NOTHING;
    ELSE
        DELETE FROM attended WHERE conversation = c AND worker = w;
    END IF;
END $$;

CREATE OR REPLACE FUNCTION u_attended(c bigint, w uuid) RETURNS boolean LANGUAGE sql VOLATILE AS
    'SELECT EXISTS (SELECT 1 FROM attended a JOIN workers x ON x.id = a.worker
        WHERE a.conversation = c AND a.worker <> w AND x.seen + x.lease > clock_timestamp())';

-- False where it has ended already. Nothing that has a name to be ended lives for so long that it would come back.
CREATE OR REPLACE FUNCTION u_end(kind_ text, name_ text, made_ bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE is_first boolean;
BEGIN
    INSERT INTO ended VALUES (kind_, name_, made_, clock_timestamp()) ON CONFLICT DO NOTHING;
    is_first := FOUND;
    DELETE FROM ended WHERE at < clock_timestamp() - interval '60 days';
    RETURN is_first;
END $$;

-- A hint, after which others look for themselves. Where nobody else is there, nothing is said.
CREATE OR REPLACE FUNCTION u_tell(w uuid, names text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify(u_channel(host), w || ' ' || names) FROM
        (SELECT DISTINCT host FROM workers WHERE id <> w AND seen + lease > clock_timestamp()) hosts;
END $$;
"""

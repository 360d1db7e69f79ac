"""Functions of the database about hosts: who serves one, what waits there, and where new workspaces go.

A front end's name begins with `front `, which no host's name does, so no conversation is ever placed there.
"""

FUNCTIONS_OF_HOSTS = """
-- False while another process serves it, whose end is not sure: whoever has the lock of the same folder knows that it has ended.
CREATE OR REPLACE FUNCTION u_serve(name_ text, disk_ uuid, w uuid, address_ text, state_ text) RETURNS boolean
    LANGUAGE plpgsql AS $$
DECLARE other uuid; its_disk uuid; mine interval;
BEGIN
    SELECT lease INTO mine FROM workers WHERE id = w AND seen + lease > clock_timestamp();
    IF NOT FOUND THEN RETURN false; END IF;
    INSERT INTO hosts VALUES (name_, disk_, w, address_, 'ready', clock_timestamp(), mine) ON CONFLICT DO NOTHING;
    IF FOUND THEN RETURN true; END IF;
    SELECT worker, disk INTO other, its_disk FROM hosts WHERE name = name_ FOR UPDATE;
    IF other = w THEN RETURN true; END IF;
    IF its_disk <> disk_ AND u_alive(other) THEN RETURN false; END IF;
    UPDATE workers SET seen = 'epoch' WHERE id = other;  -- so what it had is free
    UPDATE hosts SET disk = disk_, worker = w, address = address_, state = coalesce(state_, state), seen = clock_timestamp(),
        lease = mine WHERE name = name_;
    RETURN true;
END $$;

-- Conversations of a host that nobody has, and that somebody should: letters lie there, or whoever had them has died.
CREATE OR REPLACE FUNCTION u_waiting(name_ text) RETURNS TABLE(id text) LANGUAGE sql VOLATILE AS $$
    SELECT v.id FROM conversations v WHERE v.host = name_ AND v.number IN (SELECT conversation FROM inbox) AND NOT EXISTS (
        SELECT 1 FROM claims k JOIN workers w ON w.id = k.worker
            WHERE k.conversation = v.number AND w.seen + w.lease > clock_timestamp())
    UNION SELECT v.id FROM workers w JOIN claims k ON k.worker = w.id JOIN conversations v ON v.number = k.conversation
        WHERE w.host = name_ AND w.seen + w.lease <= clock_timestamp() AND v.host = name_;
$$;

-- Where the folder is known, there and nowhere else; else on the host that has the fewest. `there_`: somebody serves it.
CREATE OR REPLACE FUNCTION u_begin(c bigint, id_ text, path_ text, op_ bytea, OUT host_ text, OUT there_ boolean)
    LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(7266, 'about'::regclass::oid::int);  -- those that come at once go to different hosts
    SELECT s.host, u_there(s.host) INTO host_, there_ FROM workspaces s WHERE s.path = path_ ORDER BY 2 DESC, 1 LIMIT 1;
    IF FOUND AND NOT there_ THEN RETURN; END IF;
    IF host_ IS NULL THEN host_ := u_room(); END IF;
    INSERT INTO beginnings VALUES (c, id_, path_, host_, clock_timestamp(), op_, NULL) ON CONFLICT DO NOTHING;
    IF host_ IS NOT NULL THEN
        INSERT INTO workspaces VALUES (host_, path_) ON CONFLICT DO NOTHING;
        PERFORM u_hint_work(host_, id_);
    END IF;
END $$;

CREATE OR REPLACE FUNCTION u_room() RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT h.name FROM hosts h JOIN workers w ON w.id = h.worker
        LEFT JOIN (SELECT host, count(*) AS many FROM workspaces GROUP BY host) s ON s.host = h.name
        WHERE h.state = 'ready' AND w.seen + w.lease > clock_timestamp() ORDER BY coalesce(s.many, 0), h.name LIMIT 1;
$$;

-- What is to be begun on this host, with what nobody had room for before.
CREATE OR REPLACE FUNCTION u_beginnings(name_ text) RETURNS TABLE(id text, op bytea) LANGUAGE plpgsql AS $$
DECLARE old record;
BEGIN
    FOR old IN DELETE FROM beginnings b WHERE b.asked < clock_timestamp() - interval '1 hour' RETURNING b.host, b.path LOOP
        PERFORM u_vacate(old.host, old.path);  -- whoever asked has gone
    END LOOP;
    WITH taken AS (UPDATE beginnings b SET host = name_ WHERE b.host IS NULL AND b.refused IS NULL RETURNING b.path)
        INSERT INTO workspaces SELECT DISTINCT name_, path FROM taken ON CONFLICT DO NOTHING;
    RETURN QUERY SELECT b.id, b.op FROM beginnings b WHERE b.host = name_ AND b.refused IS NULL ORDER BY b.asked;
END $$;

-- Forget on which host a folder is, unless a conversation is in it or about to begin there.
CREATE OR REPLACE FUNCTION u_vacate(host_ text, path_ text) RETURNS void LANGUAGE sql AS $$
    DELETE FROM workspaces s WHERE s.host = host_ AND s.path = path_
        AND NOT EXISTS (SELECT 1 FROM conversations v WHERE v.host = s.host AND v.folder = s.path)
        AND NOT EXISTS (SELECT 1 FROM beginnings o WHERE o.host = s.host AND o.path = s.path AND o.refused IS NULL);
$$;

CREATE OR REPLACE FUNCTION u_refuse_beginning(c bigint, why text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE beginnings SET refused = why WHERE conversation = c;
    PERFORM u_vacate(host, path) FROM beginnings WHERE conversation = c;
END $$;

-- What becomes of it, to whoever asked; with `gives_up`, nothing any more.
CREATE OR REPLACE FUNCTION u_beginning(c bigint, gives_up boolean, OUT begun boolean, OUT refused_ text, OUT host_ text)
    LANGUAGE plpgsql AS $$
DECLARE path_ text;
BEGIN
    SELECT refused, host, path INTO refused_, host_, path_ FROM beginnings WHERE conversation = c FOR UPDATE;
    IF FOUND AND (gives_up OR refused_ IS NOT NULL) THEN
        DELETE FROM beginnings WHERE conversation = c;
        PERFORM u_vacate(host_, path_);
    END IF;
    begun := EXISTS (SELECT 1 FROM conversations WHERE number = c);
END $$;

-- A conversation that was asked for is made; nothing is, where nobody waits for it any more. The folder of a clone
-- is where its worker makes it, so the path that the front end gave is forgotten.
CREATE OR REPLACE FUNCTION u_begun(c bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE name_ text; host_ text; path_ text;
BEGIN
    DELETE FROM beginnings WHERE conversation = c RETURNING id, host, path INTO name_, host_, path_;
    IF NOT FOUND THEN PERFORM u_refuse('UD002', 'nobody waits for it'); END IF;
    IF right(path_, length(name_)) = name_ THEN PERFORM u_vacate(host_, path_); END IF;
END $$;

-- A workspace that can be made again goes to another host, where its own is away for longer than a lease after it was given up:
-- with all its conversations, under new epochs, so that whoever had them writes nothing more. The host that it is on then.
CREATE OR REPLACE FUNCTION u_move_away(c bigint) RETURNS text LANGUAGE plpgsql AS $$
DECLARE at text; path_ text; room text;
BEGIN
    PERFORM pg_advisory_xact_lock(7266, 'about'::regclass::oid::int);
    SELECT v.host, v.folder INTO at, path_ FROM conversations v JOIN workspaces s ON s.host = v.host AND s.path = v.folder
        JOIN hosts h ON h.name = v.host LEFT JOIN workers w ON w.id = h.worker
        WHERE v.number = c AND s.kind = 'git' AND greatest(w.seen + 2 * w.lease, h.seen + 2 * h.lease) <= clock_timestamp()
            AND NOT EXISTS (SELECT 1 FROM conversations o JOIN claims k ON k.conversation = o.number  -- e.g. a terminal there
                WHERE o.host = v.host AND o.folder = v.folder AND u_alive(k.worker));
    IF NOT FOUND THEN RETURN (SELECT host FROM conversations WHERE number = c); END IF;
    room := u_room();
    IF room IS NULL OR room = at THEN RETURN at; END IF;
    PERFORM 1 FROM conversations WHERE host = at AND folder = path_ ORDER BY number FOR NO KEY UPDATE;
    UPDATE conversations SET host = room, epoch = epoch + 1 WHERE host = at AND folder = path_;
    DELETE FROM claims k USING conversations v WHERE k.conversation = v.number AND v.host = room AND v.folder = path_;
    DELETE FROM workspaces WHERE host = at AND path = path_;
    INSERT INTO workspaces VALUES (room, path_, 'git') ON CONFLICT DO NOTHING;
    RETURN room;
END $$;

-- Where a new conversation works: in this folder of the process that makes it, or beside another one.
CREATE OR REPLACE FUNCTION u_settle_in(c bigint, path_ text, kind_ text, beside bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF beside IS NOT NULL THEN
        UPDATE conversations v SET host = o.host, folder = o.folder FROM conversations o WHERE v.number = c AND o.number = beside;
    ELSE
        UPDATE conversations SET folder = path_ WHERE number = c;
    END IF;
    INSERT INTO workspaces SELECT host, folder, kind_ FROM conversations
        WHERE number = c AND host IS NOT NULL AND folder IS NOT NULL AND beside IS NULL
        ON CONFLICT (host, path) DO UPDATE SET kind = excluded.kind;
END $$;

-- Letters that asked for nothing that had to be recorded leave the box, unless somebody else has the conversation by now.
CREATE OR REPLACE FUNCTION u_discard(c bigint, e int, upto bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM conversations WHERE number = c AND epoch = e FOR NO KEY UPDATE;
    IF FOUND THEN DELETE FROM inbox WHERE conversation = c AND number <= upto; END IF;
END $$;

CREATE OR REPLACE FUNCTION u_drain(name_ text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    UPDATE hosts SET state = 'draining' WHERE name = name_;
    IF FOUND THEN PERFORM u_hint_work(name_, ''); END IF;
    RETURN FOUND;
END $$;
"""

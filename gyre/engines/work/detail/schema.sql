-- SPDX-License-Identifier: Apache-2.0
-- The schema of durable jobs: one statement, which migrates a database of any earlier version.
-- docs/design/work.md has the reasons. Run it by work::migrate(), or by `psql -f schema.sql`.
--
-- A later version adds a block at the end. It may add functions and columns, and never changes what
-- a function of an earlier version takes and returns, because workers of both versions run at once.
do $migration$
declare
  installed integer := 0;
begin
  perform pg_advisory_xact_lock(x'677972652e776f72'::bigint);  -- "gyre.wor"
  if to_regclass('work.version') is not null then
    select coalesce(max(version), 0) into installed from work.version;
  end if;

  if installed < 1 then
    create schema work;
    create table work.version (
      version integer primary key,
      installed_at timestamptz not null default now()
    );

    create type work.job_state as enum
      ('scheduled', 'ready', 'running', 'finished', 'dead', 'cancelled');

    -- One row per job, from its submission to its removal.
    create table work.job (
      id bigint generated always as identity primary key,
      worker bigint,                               -- of the running attempt
      batch bigint,
      time_limit_ms bigint check (time_limit_ms > 0),
      keep_ms bigint not null check (keep_ms >= 0),  -- how long the row outlives success
      submitted_at timestamptz not null default now(),
      run_at timestamptz not null,
      started_at timestamptz,
      ended_at timestamptz,
      remove_at timestamptz,
      state work.job_state not null,
      attempt integer not null default 0,          -- the fencing token: counts every take
      failures integer not null default 0,         -- attempts that count against max_attempts
      max_attempts integer not null check (max_attempts > 0),
      progress real,
      priority smallint not null,
      stop_requested boolean not null default false,
      kind text not null check (octet_length(kind) between 1 and 200),
      key text check (octet_length(key) between 1 and 1000),
      progress_note text,
      error text,
      payload bytea not null,
      result bytea,
      check ((state = 'running') = (worker is not null))
    ) with (
      fillfactor = 80,
      autovacuum_vacuum_scale_factor = 0,
      autovacuum_vacuum_threshold = 20000,
      autovacuum_vacuum_insert_scale_factor = 0.2,
      autovacuum_analyze_scale_factor = 0.2,
      autovacuum_analyze_threshold = 50000,
      autovacuum_vacuum_cost_delay = 0
    );
    create index job_ready on work.job (kind, priority desc, id) where state = 'ready';
    create index job_scheduled on work.job (kind, run_at) where state = 'scheduled';
    create index job_running on work.job (worker) where state = 'running';
    create index job_ended on work.job (remove_at) where remove_at is not null;
    create index job_dead on work.job (kind, id) where state = 'dead';
    create index job_batch on work.job (batch) where batch is not null;
    create unique index job_key on work.job (kind, key) where key is not null;

    -- One row per worker process and connection of it. The row is the lease of all its jobs.
    create table work.worker (
      id bigint generated always as identity primary key,
      lease_ms bigint not null check (lease_ms > 0),
      lease_until timestamptz not null,
      registered_at timestamptz not null default now(),
      name text not null,
      waits text[] not null default '{}'           -- the kinds that it would take more jobs of
    ) with (
      fillfactor = 30,
      autovacuum_vacuum_scale_factor = 0,
      autovacuum_vacuum_threshold = 500
    );

    -- Limits of kinds over all workers. A kind without a row has the defaults.
    create table work.kind (
      kind text primary key,
      max_running integer check (max_running > 0),
      max_waiting bigint not null default 1000000 check (max_waiting > 0),
      paused boolean not null default false
    );
    create table work.backlog (
      kind text primary key,
      waiting bigint not null,
      counted_at timestamptz not null,
      is_full boolean not null
    ) with (fillfactor = 50);

    create table work.done (
      key text primary key check (octet_length(key) between 1 and 1000),
      done_at timestamptz not null default now()
    ) with (
      autovacuum_vacuum_scale_factor = 0.05,
      autovacuum_vacuum_cost_delay = 0
    );
    create index done_at on work.done (done_at);

    create table work.batch (
      id bigint generated always as identity primary key,
      size bigint not null,
      pending bigint not null check (pending >= 0),
      finished bigint not null default 0,
      dead bigint not null default 0,
      cancelled bigint not null default 0,
      submitted_at timestamptz not null default now(),
      completed_at timestamptz,
      then_kind text,
      then_payload bytea
    ) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
    create index batch_completed on work.batch (completed_at) where completed_at is not null;

    create table work.schedule (
      name text primary key check (octet_length(name) between 1 and 500),
      kind text not null check (octet_length(kind) between 1 and 200),
      cron text not null,
      zone text not null,
      payload bytea not null,
      priority smallint not null,
      max_attempts integer not null check (max_attempts > 0),
      time_limit_ms bigint check (time_limit_ms > 0),
      paused boolean not null default false,
      next_at timestamptz,                         -- null: a worker computes it first
      last_at timestamptz
    );

    -- Makes the commit of this transaction durable even where that is not the database's default: a
    -- crash must not forget a token that a worker uses.
    create function work.commit_durably() returns void
    language plpgsql as $body$
    begin
      if current_setting('synchronous_commit') = 'off' then
        perform set_config('synchronous_commit', 'on', true);
      end if;
    end
    $body$;

    -- Wakes idle workers of these kinds, when the transaction commits. The list of those that wait
    -- is as old as the transaction's snapshot, so a transaction that keeps one always notifies.
    create function work.wake(kinds text[]) returns void
    language plpgsql as $body$
    begin
      if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        perform pg_notify('work_ready', k) from (select distinct unnest(kinds) as k) wanted;
      else
        perform pg_notify('work_ready', wanted.k)
        from (select distinct unnest(kinds) as k) wanted
        where exists (select from work.worker w where wanted.k = any (w.waits));
      end if;
    end
    $body$;

    -- Counts the jobs of a kind that wait, up to its limit, unless another transaction does.
    create function work.count_backlog(counted text) returns void
    language plpgsql
    set enable_seqscan = off
    as $body$
    declare
      max_count bigint := coalesce((select k.max_waiting from work.kind k where k.kind = counted), 1000000);
      found_count bigint;
    begin
      if not pg_try_advisory_xact_lock(x'67777262'::integer, hashtext(counted)) then
        return;
      end if;
      select count(*) into found_count from (
        select from work.job j where j.state = 'ready' and j.kind = counted limit max_count) ready;
      if found_count < max_count then
        found_count := found_count + (select count(*) from (
          select from work.job j where j.state = 'scheduled' and j.kind = counted
          limit max_count - found_count) scheduled);
      end if;
      insert into work.backlog as b values (counted, found_count, clock_timestamp(), found_count >= max_count)
      on conflict (kind) do update set waiting = excluded.waiting, counted_at = excluded.counted_at,
        is_full = excluded.is_full;
    end
    $body$;

    -- Refuses a submission to a kind whose backlog is full. Its count is made again after 0.5 s to
    -- 10 s, the later the more jobs wait, so that counting takes some 2 % of a processor's time
    -- whatever waits; or the count is as old as the transaction's snapshot.
    create function work.check_backlog(checked text) returns void
    language plpgsql as $body$
    declare
      known work.backlog;
    begin
      select * into known from work.backlog b where b.kind = checked;
      if (known is null or known.counted_at < clock_timestamp()
            - greatest(interval '0.5 s', least(interval '10 s', known.waiting * interval '10 us')))
          and current_setting('transaction_isolation') = 'read committed' then
        perform work.count_backlog(checked);
        select * into known from work.backlog b where b.kind = checked;
      end if;
      if known.is_full then
        raise exception 'work: the queue "%" is full: % jobs wait', checked, known.waiting
          using errcode = 'GW001', hint = 'Run more workers, or raise work.kind.max_waiting.';
      end if;
    end
    $body$;

    -- Adds one job, or finds the one that has its key.
    create function work.submit(
      kind text, payload bytea, key text default null, priority smallint default 0,
      run_at timestamptz default null, max_attempts integer default 20,
      time_limit_ms bigint default null, keep_ms bigint default null,
      out id bigint, out is_new boolean)
    language plpgsql as $body$
    #variable_conflict use_variable
    begin
      perform work.check_backlog(kind);
      is_new := true;
      keep_ms := coalesce(keep_ms, case when key is null then 0 else 86400000 end);
      if key is null then
        insert into work.job (kind, payload, priority, run_at, max_attempts, time_limit_ms, keep_ms, state)
        values (kind, payload, priority, coalesce(run_at, now()), max_attempts, time_limit_ms, keep_ms,
          case when run_at > now() then 'scheduled' else 'ready' end::work.job_state)
        returning job.id into id;
      else
        loop  -- the job with the key may end between the two statements
          insert into work.job (kind, key, payload, priority, run_at, max_attempts, time_limit_ms, keep_ms, state)
          values (kind, key, payload, priority, coalesce(run_at, now()), max_attempts, time_limit_ms, keep_ms,
            case when run_at > now() then 'scheduled' else 'ready' end::work.job_state)
          on conflict do nothing
          returning job.id into id;
          exit when found;
          select j.id into id from work.job j where j.kind = submit.kind and j.key = submit.key;
          is_new := false;
          exit when found;
          is_new := true;
        end loop;
      end if;
      if is_new then
        perform work.wake(array[kind]);
      end if;
    end
    $body$;

    -- Adds many jobs of one kind, in the order of the arrays. An element of `run_ats` may be null.
    create function work.submit_many(
      kind text, payloads bytea[], keys text[], priorities smallint[], run_ats timestamptz[],
      max_attempts integer, time_limit_ms bigint, keep_ms bigint, batch bigint)
    returns table (ordinal bigint, id bigint, is_new boolean)
    language plpgsql as $body$
    #variable_conflict use_variable
    declare
      added bigint := 0;
      entry record;
    begin
      perform work.check_backlog(kind);
      if cardinality(array_remove(keys, null)) = 0 then
        return query
          with added as (
            insert into work.job (kind, payload, priority, run_at, max_attempts, time_limit_ms, keep_ms, batch, state)
            select submit_many.kind, e.payload, e.priority, coalesce(e.run_at, now()), max_attempts,
              time_limit_ms, coalesce(keep_ms, 0), batch,
              case when e.run_at > now() then 'scheduled' else 'ready' end::work.job_state
            from unnest(payloads, priorities, run_ats) with ordinality
              e(payload, priority, run_at, ordinal)
            order by e.ordinal
            returning job.id)
          select row_number() over (order by a.id), a.id, true from added a order by a.id;
        get diagnostics added = row_count;
      else
        -- In the order of the keys, so that two transactions with common keys do not deadlock.
        for entry in
          select * from unnest(payloads, keys, priorities, run_ats) with ordinality
            e(payload, key, priority, run_at, ordinal)
          order by e.key collate "C" nulls first, e.ordinal
        loop
          ordinal := entry.ordinal;
          loop
            insert into work.job
              (kind, key, payload, priority, run_at, max_attempts, time_limit_ms, keep_ms, batch, state)
            values (kind, entry.key, entry.payload, entry.priority, coalesce(entry.run_at, now()),
              max_attempts, time_limit_ms,
              coalesce(keep_ms, case when entry.key is null then 0 else 86400000 end), batch,
              case when entry.run_at > now() then 'scheduled' else 'ready' end::work.job_state)
            on conflict do nothing
            returning job.id into id;
            is_new := found;
            exit when found;
            select j.id into id from work.job j where j.kind = submit_many.kind and j.key = entry.key;
            exit when found;
          end loop;
          if is_new then
            added := added + 1;
          end if;
          return next;
        end loop;
      end if;
      if added > 0 then
        perform work.wake(array[kind]);
      end if;
    end
    $body$;

    -- Counts jobs that have ended in their batches. In the order of the batches, so that two
    -- transactions do not deadlock.
    create function work.count_batches(batches bigint[], states work.job_state[]) returns void
    language plpgsql as $body$
    declare
      ended record;
    begin
      for ended in
        select e.batch, count(*) as jobs, count(*) filter (where e.state = 'finished') as finished,
          count(*) filter (where e.state = 'dead') as dead,
          count(*) filter (where e.state = 'cancelled') as cancelled
        from unnest(batches, states) e(batch, state)
        where e.batch is not null and e.state in ('finished', 'dead', 'cancelled')
        group by e.batch order by e.batch
      loop
        perform work.count_batch(ended.batch, ended.jobs, ended.finished, ended.dead, ended.cancelled);
      end loop;
    end
    $body$;

    -- Tells those who wait for these jobs of a change, when the transaction commits. A notification holds
    -- less than 8000 bytes.
    create function work.tell_changed(ids bigint[]) returns void
    language plpgsql as $body$
    begin
      perform pg_notify('work_changed', string_agg(e.id::text, ' '))
      from unnest(ids) with ordinality e(id, ordinal) group by e.ordinal / 300;
    end
    $body$;

    create function work.count_batch(
      counted bigint, all_ended bigint, finished_jobs bigint, dead_jobs bigint, cancelled_jobs bigint)
    returns void language plpgsql as $body$
    declare
      complete work.batch;
    begin
      update work.batch b
      set pending = b.pending - all_ended, finished = b.finished + finished_jobs,
        dead = b.dead + dead_jobs, cancelled = b.cancelled + cancelled_jobs,
        completed_at = case when b.pending = all_ended then now() end
      where b.id = counted
      returning * into complete;
      if complete.completed_at is not null then
        perform pg_notify('work_changed', 'b' || counted);
        if complete.then_kind is not null then
          -- Neither a full queue nor a key of a user keeps it from being added, since the end of the batch's
          -- last job could then not be stored. A batch completes once, so that no key is needed.
          insert into work.job (kind, payload, priority, run_at, max_attempts, keep_ms, state)
          values (complete.then_kind, complete.then_payload, 0, now(), 20, 86400000, 'ready');
          perform work.wake(array[complete.then_kind]);
        end if;
      end if;
    end
    $body$;

    -- Adds many jobs of one kind whose ends are counted together.
    create function work.submit_batch(
      kind text, payloads bytea[], keys text[], priorities smallint[], run_ats timestamptz[],
      max_attempts integer, time_limit_ms bigint, keep_ms bigint, then_kind text, then_payload bytea)
    returns bigint language plpgsql as $body$
    declare
      made bigint;
      added bigint;
    begin
      insert into work.batch (size, pending, then_kind, then_payload)
      values (0, 0, submit_batch.then_kind, submit_batch.then_payload)
      returning id into made;
      select count(*) into added
      from work.submit_many(kind, payloads, keys, priorities, run_ats, max_attempts, time_limit_ms,
        keep_ms, made) s
      where s.is_new;
      update work.batch b set size = added, pending = added where b.id = made;
      if added = 0 then
        perform work.count_batch(made, 0, 0, 0, 0);
      end if;
      return made;
    end
    $body$;

    create function work.register(name text, lease_ms bigint) returns bigint
    language sql as $body$
      select work.commit_durably();
      insert into work.worker (name, lease_ms, lease_until)
      values (
        coalesce(nullif(register.name, ''), concat_ws(' ', current_setting('application_name'),
          coalesce(host(inet_client_addr()), 'local'), pg_backend_pid())),
        register.lease_ms, clock_timestamp() + register.lease_ms * interval '1 ms')
      returning id;
    $body$;

    -- Takes up to `limits[n]` jobs of `kinds[n]`. If there were fewer of a kind, a last row without
    -- an id has in `due_ms` the time until the first scheduled job of these kinds; null: none.
    -- Fails with GW002 when the lease was taken over.
    -- Takes up to `limits` jobs of each of the kinds, and `total` in all, for which the kinds take
    -- turns.
    create function work.take(worker_id bigint, kinds text[], limits integer[], total integer)
    returns table (id bigint, kind text, attempt integer, failures integer, max_attempts integer,
      time_limit_ms bigint, payload bytea, key text, due_ms bigint)
    language plpgsql
    set enable_seqscan = off
    set enable_hashjoin = off
    set enable_mergejoin = off
    set jit = off
    as $body$
    declare
      limited record;
      lacking integer[] := limits;
      still_waits text[];
    begin
      perform work.commit_durably();
      perform from work.worker w where w.id = worker_id for key share;
      if not found then
        raise exception 'work: the lease of worker % was taken over', worker_id
          using errcode = 'GW002', hint = 'Register again; running handlers can no longer commit.';
      end if;

      with due as materialized (
        select d.id from unnest(kinds) k(kind) cross join lateral (
          select j.id from work.job j
          where j.state = 'scheduled' and j.kind = k.kind and j.run_at <= now()
          order by j.run_at limit 1000 for update skip locked) d)
      update work.job j set state = 'ready' where j.id = any (array(select d.id from due d));

      for limited in
        select k.kind as name, k.paused, k.max_running from work.kind k
        where k.kind = any (kinds) and (k.paused or k.max_running is not null)
      loop
        if not limited.paused then
          -- One taker at a time counts and takes; others take nothing of this kind this time.
          perform from work.kind k where k.kind = limited.name for no key update skip locked;
        end if;
        if limited.paused or not found then
          limits[array_position(kinds, limited.name)] := 0;
        else
          limits[array_position(kinds, limited.name)] := greatest(0, least(
            limits[array_position(kinds, limited.name)], limited.max_running - (
              select count(*) from work.job j where j.state = 'running' and j.kind = limited.name)));
        end if;
      end loop;

      for id, kind, attempt, failures, max_attempts, time_limit_ms, payload, key in
        with found as materialized (
          select p.id, row_number() over (partition by k.kind order by p.priority desc, p.id) as turn
          from unnest(kinds, limits) k(kind, n) cross join lateral (
            select j.id, j.priority from work.job j
            where j.state = 'ready' and j.kind = k.kind
            order by j.priority desc, j.id limit least(k.n, total) for update skip locked) p),
        picked as materialized (select f.id from found f order by f.turn limit total),
        taken as (
          update work.job j
          set state = 'running', worker = worker_id, attempt = j.attempt + 1, started_at = now(),
            progress = null, progress_note = null
          where j.id = any (array(select p.id from picked p))
          returning j.*)
        select t.id, t.kind, t.attempt, t.failures, t.max_attempts, t.time_limit_ms, t.payload, t.key
        from taken t order by t.priority desc, t.id
      loop
        lacking[array_position(kinds, kind)] := lacking[array_position(kinds, kind)] - 1;
        return next;
      end loop;

      -- A submission of a kind that is in `waits` wakes the worker.
      select coalesce(array_agg(k.kind order by k.kind), '{}') into still_waits
      from unnest(kinds, lacking) k(kind, lack) where k.lack > 0;
      update work.worker w set waits = still_waits where w.id = worker_id and w.waits <> still_waits;
      if cardinality(still_waits) > 0 then
        -- greatest() alone would make 0 of the null that says that there is no job.
        select case when min(d.run_at) is not null then
          greatest(0, ceil(extract(epoch from min(d.run_at) - clock_timestamp()) * 1000))::bigint end
        into due_ms
        from unnest(kinds) k(kind) cross join lateral (
          select j.run_at from work.job j where j.state = 'scheduled' and j.kind = k.kind
          order by j.run_at limit 1) d;
        id := null;
        kind := null;
        payload := null;
        key := null;
        return next;
      end if;
    end
    $body$;

    -- Gives back jobs that the worker does not know to have: the reply to a take() was lost.
    create function work.release_unknown(worker_id bigint, ids bigint[], attempts integer[])
    returns integer
    language plpgsql
    set enable_seqscan = off
    as $body$
    declare
      released integer;
      kinds text[];
    begin
      with given_back as (
        update work.job j set state = 'ready', worker = null
        where j.state = 'running' and j.worker = worker_id
          and not exists (select from unnest(ids, attempts) k(id, attempt)
            where k.id = j.id and k.attempt = j.attempt)
        returning j.kind)
      select count(*), array_agg(distinct g.kind) into released, kinds from given_back g;
      if released > 0 then
        perform work.wake(kinds);
      end if;
      return released;
    end
    $body$;

    -- The delay before an attempt after `failures` failures: it doubles, and half of it is random.
    create function work.retry_delay(failures integer, first_ms bigint, max_ms bigint) returns interval
    language sql as $body$
      select least(max_ms::float8, first_ms * power(2.0, least(failures - 1, 40)))
        * (0.5 + random() / 2) * interval '1 ms'
    $body$;

    -- Ends attempts of one worker, and returns those jobs whose attempt was still the worker's. The
    -- others were taken over: their outcome counts for nothing. Outcomes: finished, failed, dead,
    -- cancelled, and released, which does not count against max_attempts.
    create function work.end_attempts(
      worker_id bigint, ids bigint[], attempts integer[], outcomes text[], results bytea[],
      errors text[], delays_ms bigint[], keep_dead_ms bigint)
    returns table (id bigint, state work.job_state)
    language plpgsql
    set enable_seqscan = off
    set enable_nestloop = off
    set jit = off
    as $body$
    #variable_conflict use_column
    declare
      ended_ids bigint[];
      ended_states work.job_state[];
      ended_batches bigint[];
      ended_kinds text[];
      kept_ids bigint[];
      has_batches boolean;
    begin
      with told as materialized (
        select * from unnest(ids, attempts, outcomes, results, errors, delays_ms)
          t(id, attempt, outcome, result, error, delay_ms)),
      -- A success that nobody asked to keep leaves nothing.
      removed as (
        delete from work.job j using told t
        where j.id = any (ids) and j.id = t.id and j.attempt = t.attempt and j.worker = worker_id
          and j.state = 'running' and j.keep_ms = 0 and t.outcome in ('finished', 'cancelled')
        returning j.id, t.outcome::work.job_state as state, j.batch, j.kind, false as is_kept),
      decided as (
        select t.*, case
          when t.outcome in ('finished', 'cancelled', 'dead') then t.outcome
          when j.stop_requested then 'cancelled'
          when t.outcome = 'failed' and j.failures + 1 >= j.max_attempts then 'dead'
          when t.delay_ms > 0 then 'scheduled'
          else 'ready' end::work.job_state as next_state
        from told t join work.job j on j.id = t.id
        where j.id = any (ids) and (j.keep_ms > 0 or t.outcome not in ('finished', 'cancelled'))),
      changed as (
        update work.job j
        set state = d.next_state, worker = null,
          failures = j.failures + case when d.outcome in ('failed', 'dead') then 1 else 0 end,
          run_at = case when d.next_state = 'scheduled'
            then clock_timestamp() + d.delay_ms * interval '1 ms' else j.run_at end,
          ended_at = case when d.next_state in ('finished', 'dead', 'cancelled') then clock_timestamp() end,
          remove_at = case
            when d.next_state = 'dead' then clock_timestamp() + keep_dead_ms * interval '1 ms'
            when d.next_state in ('finished', 'cancelled')
              then clock_timestamp() + j.keep_ms * interval '1 ms' end,
          progress = case when d.next_state = 'finished' then 1 else j.progress end,
          result = d.result, error = coalesce(d.error, j.error),
          payload = case when d.next_state in ('finished', 'cancelled') then '' else j.payload end
        from decided d
        where j.id = any (ids) and j.id = d.id and j.attempt = d.attempt and j.worker = worker_id
          and j.state = 'running'
        returning j.id, j.state, j.batch, j.kind, j.state in ('finished', 'dead', 'cancelled') as is_kept),
      ended as (select * from removed union all select * from changed)
      select array_agg(e.id), array_agg(e.state), array_agg(e.batch), array_agg(distinct e.kind),
        array_agg(e.id) filter (where e.is_kept), count(e.batch) > 0
      into ended_ids, ended_states, ended_batches, ended_kinds, kept_ids, has_batches
      from ended e;

      if has_batches then
        perform work.count_batches(ended_batches, ended_states);
      end if;
      if kept_ids is not null then
        perform work.tell_changed(kept_ids);
      end if;
      -- Workers that a kind's limit kept from taking may take now.
      if exists (select from work.kind k where k.kind = any (ended_kinds) and k.max_running is not null) then
        perform work.wake(ended_kinds);
      end if;
      return query select * from unnest(ended_ids, ended_states);
    end
    $body$;

    -- Extends the worker's lease; returns its jobs that are to be stopped. It waits for no lock on a
    -- job. Fails with GW002 when the lease was taken over.
    create function work.heartbeat(worker_id bigint) returns setof bigint
    language plpgsql
    set enable_seqscan = off
    as $body$
    begin
      update work.worker w set lease_until = clock_timestamp() + w.lease_ms * interval '1 ms'
      where w.id = worker_id;
      if not found then
        raise exception 'work: the lease of worker % was taken over', worker_id
          using errcode = 'GW002', hint = 'Register again; running handlers can no longer commit.';
      end if;
      return query select j.id from work.job j
        where j.state = 'running' and j.worker = worker_id and j.stop_requested;
    end
    $body$;

    -- Stores the progress of a worker's jobs, except of those that a transaction has locked, such as
    -- one that cancels the job.
    create function work.store_progress(
      worker_id bigint, ids bigint[], attempts integer[], progresses real[], notes text[])
    returns void
    language plpgsql
    set enable_seqscan = off
    set enable_nestloop = off
    as $body$
    declare
      watched bigint[];
    begin
      with unlocked as materialized (
        select j.id, p.progress, p.note
        from work.job j
        join unnest(ids, attempts, progresses, notes) p(id, attempt, progress, note)
          on j.id = p.id and j.attempt = p.attempt
        where j.id = any (ids) and j.worker = worker_id and j.state = 'running'
        for no key update of j skip locked),
      changed as (
        update work.job j set progress = u.progress, progress_note = u.note
        from unlocked u where j.id = any (ids) and j.id = u.id
        returning j.id, j.keep_ms)
      select array_agg(c.id) into watched from changed c where c.keep_ms > 0;
      if watched is not null then
        perform work.tell_changed(watched);
      end if;
    end
    $body$;

    -- Takes jobs back from workers whose lease has expired; returns how many. A restarted server
    -- gives each worker a whole lease to come back. A job whose row a transaction of the late
    -- worker has locked (see once()) waits until that transaction has ended.
    create function work.take_over(max_jobs integer, keep_dead_ms bigint) returns integer
    language plpgsql
    set enable_seqscan = off
    as $body$
    declare
      expired record;
      lost_ids bigint[];
      lost_states work.job_state[];
      lost_batches bigint[];
      lost_kinds text[];
      taken integer := 0;
    begin
      for expired in
        select w.id, w.name from work.worker w
        where greatest(w.lease_until, pg_postmaster_start_time() + w.lease_ms * interval '1 ms')
          < clock_timestamp()
        order by w.lease_until limit 100 for update skip locked
      loop
        with lost as materialized (
          select j.id from work.job j where j.state = 'running' and j.worker = expired.id
          limit max_jobs - taken for update skip locked),
        changed as (
          update work.job j
          set worker = null, failures = j.failures + 1,
            state = case
              when j.failures + 1 >= j.max_attempts then 'dead'
              when j.stop_requested then 'cancelled'
              when j.failures = 0 then 'ready'
              else 'scheduled' end::work.job_state,
            run_at = case when j.failures = 0 then j.run_at
              else clock_timestamp() + work.retry_delay(j.failures, 1000, 3600000) end,
            error = 'The worker "' || expired.name || '" was lost in attempt ' || j.attempt || '.',
            ended_at = case when j.failures + 1 >= j.max_attempts or j.stop_requested
              then clock_timestamp() end,
            remove_at = case when j.failures + 1 >= j.max_attempts
              then clock_timestamp() + keep_dead_ms * interval '1 ms'
              when j.stop_requested then clock_timestamp() + j.keep_ms * interval '1 ms' end
          where j.id = any (array(select l.id from lost l))
          returning j.id, j.state, j.batch, j.kind)
        select array_agg(c.id), array_agg(c.state), array_agg(c.batch), array_agg(distinct c.kind)
        into lost_ids, lost_states, lost_batches, lost_kinds
        from changed c;

        if lost_ids is not null then
          taken := taken + cardinality(lost_ids);
          perform work.count_batches(lost_batches, lost_states);
          perform work.tell_changed(lost_ids);
          perform work.wake(lost_kinds);
        end if;
        delete from work.worker w where w.id = expired.id
          and not exists (select from work.job j where j.state = 'running' and j.worker = expired.id);
        exit when taken >= max_jobs;
      end loop;
      return taken;
    end
    $body$;

    -- The orderly end of a worker, which has ended its attempts.
    create function work.unregister(worker_id bigint) returns void
    language sql as $body$
      update work.worker w set lease_until = '-infinity', lease_ms = 1, waits = '{}'
      where w.id = worker_id;
      delete from work.worker w where w.id = worker_id
        and not exists (select from work.job j where j.state = 'running' and j.worker = worker_id);
    $body$;

    -- Ends this transaction if it is idle for longer than the worker's lease: a worker that hangs in
    -- its transaction must not keep jobs, and what it has locked, for ever.
    create function work.limit_idle_time(worker_id bigint) returns void
    language plpgsql as $body$
    declare
      lease bigint;
      present interval := current_setting('idle_in_transaction_session_timeout')::interval;
    begin
      select w.lease_ms into lease from work.worker w where w.id = worker_id;
      if lease is not null and (present = interval '0' or present > lease * interval '1 ms') then
        perform set_config(
          'idle_in_transaction_session_timeout', least(lease, 2147483647)::text, true);
      end if;
    end
    $body$;

    -- Begins a transaction that ends attempts.
    create function work.begin_attempts(worker_id bigint) returns void
    language plpgsql as $body$
    begin
      perform work.limit_idle_time(worker_id);
      perform set_config('work.ends_attempts_of', worker_id::text, true);
    end
    $body$;

    -- Keeps an attempt the current one of its job until the transaction ends: take_over() asks for
    -- a lock that this one excludes. Fails with GW003 when another worker has taken the job over.
    create function work.hold_attempt(job bigint, job_attempt integer, worker_id bigint) returns void
    language plpgsql as $body$
    begin
      perform from work.job j
      where j.id = job and j.attempt = job_attempt and j.worker = worker_id and j.state = 'running'
      for key share;
      if not found then
        raise exception 'work: attempt % of job % was taken over', job_attempt, job
          using errcode = 'GW003', hint = 'Roll back; another worker has the job.';
      end if;
      perform work.limit_idle_time(worker_id);
    end
    $body$;

    -- Whether the effect with this key has yet to happen; the caller's transaction then makes it.
    -- Inside an attempt (`job` is not null) it also holds the attempt.
    create function work.once(effect text, job bigint, job_attempt integer, worker_id bigint)
    returns boolean
    language plpgsql as $body$
    begin
      if job is not null then
        perform work.hold_attempt(job, job_attempt, worker_id);
      end if;
      insert into work.done (key) values (effect) on conflict do nothing;
      return found;
    end
    $body$;

    -- As once() for each of the keys, in their order; of equal ones the first counts. The keys are
    -- inserted in an order of their own, so that two transactions with common keys do not deadlock.
    create function work.once_each(
      effects text[], job bigint, job_attempt integer, worker_id bigint)
    returns setof boolean
    language plpgsql as $body$
    begin
      if job is not null then
        perform work.hold_attempt(job, job_attempt, worker_id);
      end if;
      return query
        with added as (
          insert into work.done as d (key)
          select e.key from unnest(effects) e(key) group by e.key order by e.key collate "C"
          on conflict do nothing returning d.key)
        select a.key is not null and e.occurrence = 1
        from (
          select u.key, u.ordinal, row_number() over (partition by u.key order by u.ordinal) as occurrence
          from unnest(effects) with ordinality u(key, ordinal)) e
        left join added a on a.key = e.key
        order by e.ordinal;
    end
    $body$;

    -- Ends attempts successfully, all of them or none, within the transaction of their effects.
    -- Fails with GW003 when another worker has taken one of them over.
    create function work.finish_attempts(
      worker_id bigint, ids bigint[], attempts integer[], results bytea[])
    returns void
    language plpgsql as $body$
    declare
      ended bigint;
      size integer[] := array[cardinality(ids)];
    begin
      if current_setting('work.ends_attempts_of', true) is distinct from worker_id::text then
        raise exception 'work: the handler has ended the transaction of its jobs'
          using errcode = '25P01', hint = 'Leave COMMIT and ROLLBACK to the worker.';
      end if;
      select count(*) into ended from work.end_attempts(
        worker_id, ids, attempts, array_fill('finished'::text, size),
        results, array_fill(null::text, size), array_fill(0::bigint, size), 0);
      if ended < cardinality(ids) then
        raise exception 'work: of % attempts % were taken over', cardinality(ids),
          cardinality(ids) - ended
          using errcode = 'GW003', hint = 'Roll back; other workers have the jobs.';
      end if;
    end
    $body$;

    -- Stops a job that has not ended. Returns `cancelled`, `requested` when its handler was asked
    -- to stop, the state in which it had ended, or null if there is no such job.
    create function work.cancel(job bigint) returns text
    language plpgsql as $body$
    declare
      known work.job;
    begin
      -- Not `for update`, which would wait for a handler's transaction with once().
      select * into known from work.job j where j.id = job for no key update;
      if not found then
        return null;
      elsif known.state = 'running' then
        update work.job j set stop_requested = true where j.id = job;
        perform pg_notify('work_stop', known.worker || ' ' || job);
        return 'requested';
      elsif known.state not in ('scheduled', 'ready') then
        return known.state::text;
      end if;
      if known.keep_ms = 0 then
        delete from work.job j where j.id = job;
      else
        update work.job j set state = 'cancelled', ended_at = clock_timestamp(), payload = '',
          remove_at = clock_timestamp() + j.keep_ms * interval '1 ms' where j.id = job;
      end if;
      perform work.count_batches(array[known.batch], array['cancelled']::work.job_state[]);
      perform work.tell_changed(array[job]);
      return 'cancelled';
    end
    $body$;

    -- Makes a dead job ready again, without its batch, which has counted it.
    create function work.revive(job bigint) returns boolean
    language plpgsql as $body$
    declare
      kind_of_job text;
    begin
      update work.job j set state = 'ready', failures = 0, batch = null, stop_requested = false,
        ended_at = null, remove_at = null, run_at = now()
      where j.id = job and j.state = 'dead' returning j.kind into kind_of_job;
      if not found then
        return false;
      end if;
      perform work.wake(array[kind_of_job]);
      return true;
    end
    $body$;

    -- Removes up to `max_rows` rows of each table whose time has come; returns how many.
    create function work.clean(max_rows integer, keep_done_ms bigint) returns integer
    language plpgsql
    set enable_seqscan = off
    as $body$
    declare
      removed integer;
      total integer := 0;
    begin
      delete from work.job j where j.ctid = any (array(
        select o.ctid from work.job o where o.remove_at < now()
        order by o.remove_at limit max_rows for update skip locked));
      get diagnostics removed = row_count;
      total := total + removed;
      delete from work.done d where d.ctid = any (array(
        select o.ctid from work.done o where o.done_at < now() - keep_done_ms * interval '1 ms'
        order by o.done_at limit max_rows for update skip locked));
      get diagnostics removed = row_count;
      total := total + removed;
      delete from work.batch b where b.ctid = any (array(
        select o.ctid from work.batch o where o.completed_at < now() - keep_done_ms * interval '1 ms'
        order by o.completed_at limit max_rows for update skip locked));
      get diagnostics removed = row_count;
      return total + removed;
    end
    $body$;

    -- Adds or changes a schedule. A worker computes its next time.
    create function work.set_schedule(
      schedule_name text, job_kind text, cron_text text, zone_name text, job_payload bytea,
      job_priority smallint, job_max_attempts integer, job_time_limit_ms bigint)
    returns void language plpgsql as $body$
    begin
      perform now() at time zone zone_name;  -- an unknown zone is an error
      insert into work.schedule as s
        (name, kind, cron, zone, payload, priority, max_attempts, time_limit_ms)
      values (schedule_name, job_kind, cron_text, zone_name, job_payload, job_priority,
        job_max_attempts, job_time_limit_ms)
      on conflict (name) do update set kind = excluded.kind, cron = excluded.cron,
        zone = excluded.zone, payload = excluded.payload, priority = excluded.priority,
        max_attempts = excluded.max_attempts, time_limit_ms = excluded.time_limit_ms,
        next_at = case when (s.cron, s.zone) = (excluded.cron, excluded.zone) then s.next_at end;
    end
    $body$;

    -- Locks schedules whose time has come, or is not known yet. `local_now`: the seconds that the
    -- clocks of the schedule's zone show, counted from 1970.
    create function work.due_schedules()
    returns table (name text, cron text, local_now bigint)
    language sql as $body$
      select s.name, s.cron,
        floor(extract(epoch from clock_timestamp() at time zone s.zone))::bigint
      from work.schedule s
      where not s.paused and (s.next_at is null or s.next_at <= clock_timestamp())
      order by s.next_at nulls first limit 20 for update skip locked
    $body$;

    -- Submits the job of a locked schedule if its time has come, and sets the next time. A time
    -- that was missed is made up for once. `next_local`: null if there is none.
    create function work.advance_schedule(schedule_name text, next_local bigint) returns bigint
    language plpgsql as $body$
    declare
      known work.schedule;
      made bigint;
    begin
      select * into strict known from work.schedule s where s.name = schedule_name for update;
      if known.next_at <= clock_timestamp() then
        begin
          select s.id into made from work.submit(
            known.kind, known.payload,
            key => 'schedule:' || schedule_name || ':' || extract(epoch from known.next_at)::bigint,
            priority => known.priority, run_at => known.next_at, max_attempts => known.max_attempts,
            time_limit_ms => known.time_limit_ms) s;
        exception when sqlstate 'GW001' then
          null;  -- the queue is full: this time is left out
        end;
      end if;
      update work.schedule s set
        last_at = case when made is null then s.last_at else s.next_at end,
        next_at = coalesce(
          (timestamp 'epoch' + next_local * interval '1 s') at time zone s.zone, 'infinity')
      where s.name = schedule_name;
      return made;
    end
    $body$;

    -- The number of jobs by kind and state; reads the whole table.
    create function work.statistics()
    returns table (kind text, scheduled bigint, ready bigint, running bigint, finished bigint,
      dead bigint, cancelled bigint, oldest_ready_ms bigint)
    language sql stable as $body$
      select j.kind, count(*) filter (where j.state = 'scheduled'), count(*) filter (where j.state = 'ready'),
        count(*) filter (where j.state = 'running'), count(*) filter (where j.state = 'finished'),
        count(*) filter (where j.state = 'dead'), count(*) filter (where j.state = 'cancelled'),
        (extract(epoch from clock_timestamp() - min(j.run_at) filter (where j.state = 'ready')) * 1000)::bigint
      from work.job j group by j.kind order by j.kind
    $body$;

    insert into work.version (version) values (1);
  end if;
end
$migration$;

-- Each block: the Python calls, and texts that must give the same tree. Streams: packets, other (two streams of packets),
-- ticks (integer times), logs (two times), events (arrival order), locals (timestamp_ntz).

-- python: packets
SELECT * FROM packets;
select * from PACKETS;
SELECT p.* FROM packets AS p;
SELECT * FROM (SELECT * FROM packets) x;
WITH v AS (SELECT * FROM packets) SELECT * FROM v;
/* a comment */ SELECT -- another
  * FROM packets;

-- python: packets.select("srcIP", "len", "ts")
SELECT srcIP, len, ts FROM packets;
SELECT p.srcIP, p.len, p.ts FROM packets p;
SELECT packets.srcIP, `len`, packets.`ts` FROM packets;
SELECT * EXCEPT (destIP, router, flag) FROM packets;
SELECT srcIP, len, ts FROM (SELECT * FROM packets);

-- python: packets.select("srcIP AS ip", "len + 1 AS l", "ts")
SELECT srcIP AS ip, len + 1 AS l, ts FROM packets;
SELECT srcIP ip, len+1 l, ts FROM packets;
SELECT q.srcIP AS ip, q.len /* one more */ + 1 AS l, ts FROM packets q;

-- python: packets.where("len > 10 AND router = 'it\\'s'")
SELECT * FROM packets WHERE len > 10 AND router = 'it''s';
SELECT * FROM packets WHERE len > 10 AND router = "it's";
SELECT * FROM packets p WHERE p.len > 10 AND p.router = 'it\'s';

-- python: packets.where("len > 10").select("upper(srcIP) AS u", "ts")
SELECT upper(srcIP) AS u, ts FROM packets WHERE len > 10;
SELECT UPPER(srcIP) u, ts FROM packets WHERE len > 10;
SELECT upper(srcIP) AS u, ts FROM (SELECT * FROM packets WHERE len > 10) x;

-- python: packets.select("CASE WHEN len > 5 THEN 'big' ELSE 'small' END AS size", "1.5BD AS d", "X'1F' AS x", "ts - INTERVAL 1 SECOND AS ts")
SELECT CASE WHEN len > 5 THEN 'big' ELSE 'small' END AS size, 1.5BD AS d, X'1F' AS x, ts - INTERVAL 1 SECOND AS ts FROM packets;
SELECT CASE WHEN len > 5 THEN "big" ELSE 'small' END size, 1.5BD d, x'1f' x, ts - INTERVAL '1' SECOND ts FROM packets;

-- python: packets.select("transform(array(1, 2), x -> x + len) AS xs", "ts")
SELECT transform(array(1, 2), x -> x + len) AS xs, ts FROM packets;
SELECT transform(array(1, 2), x -> x + p.len) AS xs, ts FROM packets p;

-- python: packets.select("srcIP IS DISTINCT FROM destIP AS d", "len BETWEEN 1 AND 5 AS b", "ts")
SELECT srcIP IS DISTINCT FROM destIP AS d, len BETWEEN 1 AND 5 AS b, ts FROM packets;
SELECT srcIP IS DISTINCT FROM destIP d, len BETWEEN 1 AND 5 b, ts FROM packets;

-- python: packets.late
SELECT * FROM LATE(packets);
SELECT l.* FROM late(packets) AS l;

-- python: packets.late.select("srcIP", "_late_reason", "ts")
SELECT srcIP, _late_reason, ts FROM LATE(packets);

-- python: packets.sort("ts")
SELECT * FROM packets ORDER BY ts;
SELECT * FROM packets ORDER BY ts ASC;

-- python: packets.sort("ts").select("srcIP")
SELECT srcIP FROM packets ORDER BY ts;

-- python: packets.select("srcIP", "ts").distinct()
SELECT DISTINCT srcIP, ts FROM packets;
SELECT DISTINCT p.srcIP, p.ts FROM packets p;

-- python: packets.dropDuplicates(["srcIP", "destIP"], within="10 minutes")
SELECT DISTINCT ON (srcIP, destIP) WITHIN 10 MINUTES * FROM packets;
SELECT DISTINCT ON (srcIP, destIP) WITHIN INTERVAL '10' MINUTE * FROM packets;
SELECT DISTINCT ON (srcIP, destIP) WITHIN '10 minutes' * FROM packets;

-- python: packets.dropDuplicates(["srcIP"], within="1 hour").select("srcIP", "len")
SELECT DISTINCT ON (srcIP) WITHIN 1 HOUR srcIP, len FROM packets;
SELECT DISTINCT ON (srcIP) WITHIN INTERVAL 1 HOUR srcIP, len FROM packets;

-- python: packets.dropDuplicates(["srcIP", "len"], within="1 hour").select("srcIP", "len")
SELECT DISTINCT WITHIN 1 HOUR srcIP, len FROM packets;

-- python: packets.union(other)
SELECT * FROM packets UNION ALL SELECT * FROM other;
(SELECT * FROM packets) UNION ALL (SELECT * FROM other);
SELECT * FROM (SELECT * FROM packets UNION ALL SELECT * FROM other) u;

-- python: packets.union(other).union(packets)
SELECT * FROM packets UNION ALL SELECT * FROM other UNION ALL SELECT * FROM packets;

-- python: packets.withQuality(sw.BoundedDelay("5 seconds"))
SELECT * FROM packets WITH DELAY 5 SECONDS;
SELECT * FROM packets WITH DELAY INTERVAL '5' SECOND;
SELECT * FROM packets WITH DELAY '5 seconds';

-- python: packets.groupBy("srcIP", sw.window("10 minutes", "1 minute")).agg("count(*) AS n").select("srcIP", "n")
SELECT srcIP, count(*) AS n FROM packets [RANGE 10 MINUTES SLIDE 1 MINUTE WATTR ts] GROUP BY srcIP;
SELECT srcIP, count(*) AS n FROM packets [RANGE 10 MINUTES, SLIDE 1 MINUTE, WA ts] GROUP BY srcIP;
SELECT srcIP, count(*) AS n FROM packets [WATTR ts SLIDE 60 SECONDS RANGE 600 SECONDS] GROUP BY srcIP;
SELECT srcIP, count(*) AS n FROM packets p [RANGE INTERVAL '10' MINUTE SLIDE INTERVAL 1 MINUTE] GROUP BY p.srcIP;
SELECT srcIP, count(*) [RANGE 10 MINUTES, SLIDE 1 MINUTE, WA ts] AS n FROM packets GROUP BY srcIP;
SELECT srcIP, count(*) AS n FROM packets GROUP BY srcIP, window(ts, '10 minutes', '1 minute');
SELECT srcIP, count(*) AS n FROM packets GROUP BY window(ts, INTERVAL 10 MINUTES, INTERVAL 1 MINUTE), srcIP;
SELECT srcIP, count(*) AS n FROM HOP(packets, ts, INTERVAL 1 MINUTE, INTERVAL 10 MINUTES) GROUP BY srcIP, window_start;
SELECT srcIP, count(*) AS n FROM TABLE(HOP(TABLE packets, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '10' MINUTES)) GROUP BY srcIP, window_start, window_end;
SELECT srcIP, count(*) AS n FROM HOP(SIZE => INTERVAL 10 MINUTES, SLIDE => INTERVAL 1 MINUTE, DATA => TABLE packets, TIMECOL => DESCRIPTOR(ts)) GROUP BY window_end, srcIP;
SELECT srcIP, count(*) AS n FROM (SELECT * FROM HOP(packets, ts, INTERVAL 1 MINUTE, INTERVAL 10 MINUTES)) w GROUP BY w.srcIP, w.window_start;
SELECT srcIP, count(*) AS n FROM HOP(packets, ts, INTERVAL 1 MINUTE, INTERVAL 10 MINUTES, INTERVAL 0 MINUTES) GROUP BY 1, window_time;
SELECT srcIP, count(*) n FROM packets GROUP BY srcIP, window(ts, '10 minutes', '1 minute', '5 minutes');

-- python: packets.groupBy("srcIP", sw.window("1 minute")).agg("count(*) AS n").select("srcIP", "window.start AS window_start", "window.end AS window_end", "n")
SELECT srcIP, window_start, window_end, count(*) AS n FROM TUMBLE(packets, ts, INTERVAL 1 MINUTE) GROUP BY srcIP, window_start, window_end;
SELECT srcIP, window_start, window_end, count(*) AS n FROM TABLE(TUMBLE(TABLE packets, DESCRIPTOR(ts), INTERVAL '60' SECOND)) GROUP BY srcIP, window_start;
SELECT srcIP, window_start, window_end, count(*) AS n FROM packets [RANGE 1 MINUTE] GROUP BY srcIP;
SELECT srcIP, window.start AS window_start, window.end AS window_end, count(*) AS n FROM packets GROUP BY srcIP, window(ts, '1 minute');
SELECT srcIP, window(ts, '1 minute').start AS window_start, window(ts, '60 seconds').end AS window_end, count(*) n FROM packets GROUP BY srcIP, window(ts, '1 minute');
SELECT t.srcIP, t.window_start, t.window_end, count(*) AS n FROM TUMBLE(packets, ts, INTERVAL 1 MINUTE) t GROUP BY t.srcIP, t.window_start;
SELECT srcIP, window_start, window_end, count(*) AS n FROM packets [RANGE TUMBLING 1 MINUTE WATTR ts] GROUP BY srcIP;

-- python: packets.groupBy("srcIP", sw.window("1 minute")).agg("count(*) AS n")
SELECT srcIP, wid, window, count(*) AS n FROM packets [RANGE 1 MINUTE] GROUP BY srcIP;
SELECT srcIP, wid, window, count(*) AS n FROM packets GROUP BY srcIP, window(ts, '1 minute');
SELECT srcIP, wid, window, count(*) AS n FROM TUMBLE(packets, ts, INTERVAL 1 MINUTE) GROUP BY srcIP, window_start;

-- python: packets.groupBy("srcIP", sw.window("10 minutes", "3 minutes", origin="1970-01-01 00:01:00+00:00")).agg("sum(len) AS b").select("srcIP", "b")
SELECT srcIP, sum(len) AS b FROM packets GROUP BY srcIP, window(ts, '10 minutes', '3 minutes');
SELECT srcIP, sum(len) AS b FROM HOP(packets, ts, INTERVAL 3 MINUTES, INTERVAL 10 MINUTES) GROUP BY srcIP, window_end;
SELECT srcIP, sum(len) AS b FROM packets [RANGE 10 MINUTES SLIDE 3 MINUTES ORIGIN TIMESTAMP '1970-01-01 00:01:00'] GROUP BY srcIP;
SELECT srcIP, sum(len) AS b FROM packets [RANGE 10 MINUTES SLIDE 3 MINUTES ORIGIN '1970-01-01 00:01:00+00:00'] GROUP BY srcIP;

-- python: packets.groupBy("srcIP", sw.window("1 hour", origin="1970-01-01 00:15:00+00:00")).agg("sum(len) AS b").select("srcIP", "b")
SELECT srcIP, sum(len) AS b FROM packets GROUP BY srcIP, window(ts, '1 hour', '1 hour', '15 minutes');
SELECT srcIP, sum(len) AS b FROM TUMBLE(packets, ts, INTERVAL 1 HOUR, INTERVAL 15 MINUTES) GROUP BY srcIP, window_start;
SELECT srcIP, sum(len) AS b FROM packets GROUP BY srcIP, window(ts, '1 hour', '1 hour', '-45 minutes');

-- python: packets.groupBy(sw.window("1 day")).agg("count(*) AS n").select("window.end AS e", "n")
SELECT window_end AS e, count(*) AS n FROM packets [RANGE 1 DAY];
SELECT window.end e, count(*) n FROM packets GROUP BY window(ts, '1 day');
SELECT window_end AS e, count(*) AS n FROM TUMBLE(packets, ts, INTERVAL 24 HOURS) GROUP BY window_end;
SELECT window_end AS e, count(*) AS n FROM TUMBLE(packets, ts, INTERVAL '1 00:00:00' DAY TO SECOND) GROUP BY window_end;

-- python: packets.groupBy(sw.window("1 minute 30 seconds")).agg("count(*) AS n").select("n")
SELECT count(*) AS n FROM packets [RANGE 1 MINUTE 30 SECONDS];
SELECT count(*) AS n FROM packets GROUP BY window(ts, INTERVAL '1:30' MINUTE TO SECOND);
SELECT count(*) AS n FROM TUMBLE(packets, ts, INTERVAL 90 SECONDS) GROUP BY window_start;
SELECT count(*) AS n FROM packets GROUP BY window(ts, '90 seconds');

-- python: packets.groupBy("srcIP", sw.window("10 minutes", "5 minutes")).agg("count(*) AS c", "max(len)").where("c > 3 AND `max(len)` < 10").select("srcIP", "window.end AS end", "c")
SELECT srcIP, window.end, count(*) AS c FROM packets GROUP BY srcIP, window(ts, '10 minutes', '5 minutes') HAVING count(*) > 3 AND max(len) < 10;
SELECT srcIP, window.end, count(*) c FROM packets GROUP BY srcIP, window(ts, '10 minutes', '5 minutes') HAVING c > 3 AND max(len) < 10;

-- python: packets.groupBy("srcIP", sw.window("1 minute")).agg("sum(len) / count(*) AS mean").select("srcIP", "mean")
SELECT srcIP, sum(len) / count(*) AS mean FROM packets GROUP BY srcIP, window(ts, '1 minute');
SELECT srcIP, sum(len)/count(*) mean FROM packets [RANGE 1 MINUTE] GROUP BY srcIP;

-- python: packets.groupBy("srcIP", sw.window("10 minutes")).agg("count(*)").select("window AS w", "concat(srcIP, cast(window.end AS string), `count(1)`) AS x")
SELECT window(ts, INTERVAL 10 MINUTES) AS w, concat(srcIP, cast(window_end AS string), count(*)) x FROM packets GROUP BY 1, srcIP;
SELECT window AS w, concat(srcIP, cast(window.end AS string), count(*)) x FROM packets GROUP BY window(ts, '10 minutes'), srcIP;

-- python: packets.groupBy(F.expr("upper(srcIP)").alias("u"), sw.window("1 minute")).agg("max(len)").select("u", "`max(len)`")
SELECT upper(srcIP) AS u, max(len) FROM packets GROUP BY u, window(ts, '1 minute');
SELECT upper(srcIP) AS u, max(len) FROM packets GROUP BY upper(srcIP), window(ts, '1 minute');
SELECT upper(srcIP) AS u, max(len) FROM packets GROUP BY 1, window(ts, '1 minute');
SELECT upper(srcIP) AS u, max(len) FROM TUMBLE(packets, ts, INTERVAL 1 MINUTE) GROUP BY UPPER(srcIP), window_start;

-- python: packets.groupBy("srcIP", sw.window("1 minute")).agg("count(*)").select("srcIP AS ip", "window.end AS window_end")
SELECT srcIP AS ip, window_end FROM packets GROUP BY srcIP, window(ts, '1 minute');
SELECT srcIP AS ip, window_end FROM TUMBLE(packets, ts, INTERVAL 1 MINUTE) GROUP BY ip, window_start;

-- python: packets.groupBy("srcIP", sw.window("1 minute")).agg("count(*) AS n").select("srcIP", "window.end - INTERVAL 1 MICROSECOND AS window_time", "n")
SELECT srcIP, window_time, count(*) AS n FROM TUMBLE(packets, ts, INTERVAL 1 MINUTE) GROUP BY srcIP, window_time;
SELECT srcIP, window_time(window) AS window_time, count(*) AS n FROM packets GROUP BY srcIP, window(ts, '1 minute');

-- python: packets.groupBy("srcIP", sw.window("1 microsecond")).agg("count(*) AS n").select("srcIP", "window.start AS ts", "n")
SELECT srcIP, ts, count(*) AS n FROM packets GROUP BY srcIP, ts;
SELECT p.srcIP, p.ts, count(*) AS n FROM packets p GROUP BY p.srcIP, p.ts;

-- python: packets.groupBy("srcIP", sw.window("1 minute")).agg("count(DISTINCT destIP) AS d", "count_if(len > 3) AS big", "sum(len) FILTER (WHERE len > 1) AS s").select("srcIP", "d", "big", "s")
SELECT srcIP, count(DISTINCT destIP) AS d, count_if(len > 3) AS big, sum(len) FILTER (WHERE len > 1) AS s FROM packets GROUP BY srcIP, window(ts, '1 minute');
SELECT srcIP, count(distinct destIP) d, count_if(len > 3) big, sum(len) filter (where len > 1) s FROM packets [RANGE 1 MINUTE] GROUP BY srcIP;

-- python: packets.groupBy(sw.window("10 minutes", "1 minute")).agg(sw.heavyHitters(F.col("srcIP"), 0.05).alias("top")).select("top")
SELECT heavy_hitters(srcIP, 0.05) AS top FROM packets [RANGE 10 MINUTES SLIDE 1 MINUTE];
SELECT heavy_hitters(srcIP, 0.05) AS top FROM packets GROUP BY window(ts, '10 minutes', '1 minute');
SELECT heavy_hitters(srcIP, 0.05) AS top FROM HOP(packets, ts, INTERVAL 1 MINUTE, INTERVAL 10 MINUTES) GROUP BY window_end;

-- python: packets.groupBy("srcIP", sw.window("10 seconds", "1 second")).agg("sum(len) AS b").select("srcIP", "b").withQuality(sw.Quality(error=0.01))
SELECT srcIP, sum(len) AS b FROM packets [RANGE 10 SECONDS SLIDE 1 SECOND] GROUP BY srcIP WITH ERROR 1 %;
SELECT srcIP, sum(len) AS b FROM packets GROUP BY srcIP, window(ts, '10 seconds', '1 second') WITH ERROR 1.0 % CONFIDENCE 95 %;
SELECT srcIP, sum(len) AS b FROM HOP(packets, ts, INTERVAL 1 SECOND, INTERVAL 10 SECONDS) GROUP BY srcIP, window_start WITH ERROR 1%;

-- python: packets.groupBy(sw.window("10 seconds")).agg("max(len) AS m").select("m").withQuality(sw.Quality(coverage=0.99))
SELECT max(len) AS m FROM packets [RANGE 10 SECONDS] WITH COVERAGE 99 %;
SELECT max(len) AS m FROM packets GROUP BY window(ts, '10 seconds') WITH COVERAGE 99 %;

-- python: packets.groupBy("srcIP", sw.landmark("1 minute", "1970-01-01 00:00:00+00:00")).agg("count(*) AS n").select("srcIP", "n")
SELECT srcIP, count(*) AS n FROM packets [RANGE ALL SLIDE 1 MINUTE WATTR ts] GROUP BY srcIP;
SELECT srcIP, count(*) [RANGE ALL, SLIDE 1 MINUTE, WA ts] AS n FROM packets GROUP BY srcIP;
SELECT srcIP, count(*) AS n FROM packets [RANGE ALL SLIDE 60 SECONDS ORIGIN '1970-01-01 00:00:00'] GROUP BY srcIP;

-- python: events.groupBy("srcIP", sw.rows(1000, 10, per="srcIP")).agg("max(len) AS m").select("srcIP", "m")
SELECT srcIP, max(len) AS m FROM events [RANGE 1000 ROWS SLIDE 10 ROWS WATTR row-num PATTR srcIP] GROUP BY srcIP;
SELECT srcIP, max(len) AS m FROM ROWS(TABLE events PARTITION BY srcIP, 1000, 10) GROUP BY srcIP, window_start, window_end;
SELECT srcIP, max(len) AS m FROM TABLE(ROWS(DATA => TABLE events PARTITION BY (srcIP), SLIDE => 10 ROWS, SIZE => 1000 ROWS)) GROUP BY srcIP, wid;
SELECT srcIP, max(len) [RANGE 1000 ROWS, SLIDE 10 ROWS, WA row-num, PA srcIP] AS m FROM events GROUP BY srcIP;

-- python: events.groupBy("srcIP", sw.rows(1000, 10)).agg("max(len) AS m").select("srcIP", "m")
SELECT srcIP, max(len) AS m FROM events [RANGE 1000 ROWS SLIDE 10 ROWS] GROUP BY srcIP;
SELECT srcIP, max(len) AS m FROM events [RANGE 1000 ROWS SLIDE 10 ROWS WA row_num] GROUP BY srcIP;

-- python: events.groupBy(sw.byTuple("5 minutes")).agg("max(len) AS m").select("m")
SELECT max(len) AS m FROM events [RANGE 5 MINUTES RATTR ts SLIDE 1 ROW SATTR row-num];
SELECT max(len) [RANGE 5 MINUTES, RATTR ts, SLIDE 1 ROW, SATTR row-num] AS m FROM events;
SELECT max(len) AS m FROM BY_TUPLE(TABLE events, DESCRIPTOR(ts), INTERVAL 5 MINUTES) GROUP BY window_start, window_end;
SELECT max(len) AS m FROM BY_TUPLE(events, ts, '5 minutes', 1, 'arrival') GROUP BY wid;
SELECT max(len) AS m FROM events [RANGE 5 MINUTES SLIDE 1 ROW];

-- python: packets.groupBy(sw.byTuple("5 minutes", 5, over="rank")).agg("count(*) AS n").select("n")
SELECT count(*) AS n FROM packets [RANGE 5 MINUTES RATTR ts SLIDE 5 ROWS SATTR rank(ts)];
SELECT count(*) [RANGE 5 MINUTES, RATTR ts, SLIDE 5 ROWS, SATTR rank(ts)] AS n FROM packets;
SELECT count(*) AS n FROM BY_TUPLE(TABLE packets, DESCRIPTOR(ts), INTERVAL 5 MINUTES, 5, RANK) GROUP BY window_end;
SELECT count(*) AS n FROM TABLE(BY_TUPLE(TABLE packets, DESCRIPTOR(ts), EVERY => 5 ROWS, OVER => rank, SIZE => INTERVAL 5 MINUTES)) GROUP BY window_end;

-- python: ticks.groupBy("k", sw.window(10, 5)).agg("count(*) AS n").select("k", "window.start AS window_start", "n")
SELECT k, window_start, count(*) AS n FROM ticks [RANGE 10 SLIDE 5 WATTR t] GROUP BY k;
SELECT k, window_start, count(*) AS n FROM HOP(ticks, t, 5, 10) GROUP BY k, window_start;
SELECT k, window_start, count(*) AS n FROM ticks GROUP BY k, window(t, 10, 5);

-- python: ticks.groupBy("k", sw.window(10, 4, origin=3)).agg("count(*) AS n").select("k", "n")
SELECT k, count(*) AS n FROM ticks [RANGE 10 SLIDE 4 ORIGIN 3] GROUP BY k;
SELECT k, count(*) AS n FROM HOP(ticks, t, 4, 10, 1) GROUP BY k, window_end;

-- python: ticks.groupBy("k", sw.window(1)).agg("count(*) AS n").select("k", "window.start AS t", "n")
SELECT k, t, count(*) AS n FROM ticks GROUP BY k, t;

-- python: locals.groupBy(sw.window("1 hour", "20 minutes")).agg("count(*) AS n").select("window.start AS s", "n")
SELECT window_start AS s, count(*) AS n FROM locals GROUP BY window(lt, '1 hour', '20 minutes');
SELECT window_start AS s, count(*) AS n FROM locals [RANGE 1 HOUR SLIDE 20 MINUTES];
SELECT window_start AS s, count(*) AS n FROM HOP(locals, lt, INTERVAL 20 MINUTES, INTERVAL 1 HOUR) GROUP BY window_start;

-- python: logs.groupBy(sw.window("1 minute", on="done")).agg("count(*) AS n").select("n")
SELECT count(*) AS n FROM logs GROUP BY window(done, '1 minute');
SELECT count(*) AS n FROM logs [RANGE 1 MINUTE WATTR done];
SELECT count(*) AS n FROM TUMBLE(logs, done, INTERVAL 1 MINUTE) GROUP BY window_start;

-- python: packets.groupBy("srcIP", sw.window("1 minute")).agg("sum(len) AS s").select("srcIP", "window.end - INTERVAL 1 MICROSECOND AS rt", "s").groupBy(sw.window("5 minutes", on="rt")).agg("sum(s) AS t").select("window.start AS window_start", "t")
WITH x AS (SELECT srcIP, window_time AS rt, sum(len) AS s FROM TUMBLE(packets, ts, INTERVAL 1 MINUTE) GROUP BY srcIP, window_start, window_end, window_time) SELECT window_start, sum(s) AS t FROM TUMBLE(x, rt, INTERVAL 5 MINUTES) GROUP BY window_start;
SELECT window_start, sum(s) AS t FROM (SELECT srcIP, window_time AS rt, sum(len) AS s FROM packets [RANGE 1 MINUTE] GROUP BY srcIP) [RANGE 5 MINUTES WATTR rt];
SELECT window.start AS window_start, sum(s) t FROM (SELECT srcIP, window_time(window) AS rt, sum(len) s FROM packets GROUP BY srcIP, window(ts, '1 minute')) GROUP BY window(rt, '5 minutes');

-- python: packets.alias("a").join(other.alias("b"), on="a.srcIP = b.destIP", within=sw.band(before="2 minutes", after="3 minutes"))
SELECT * FROM packets a [RANGE 3 MINUTES WATTR ts], other b [RANGE 2 MINUTES WATTR ts] WHERE a.srcIP = b.destIP;
SELECT * FROM packets [RANGE 3 MINUTES] a, other [RANGE 2 MINUTES] AS b WHERE a.srcIP = b.destIP;
SELECT * FROM packets a [RANGE 3 MINUTES] JOIN other b [RANGE 2 MINUTES] ON a.srcIP = b.destIP;
SELECT * FROM packets a JOIN other b ON a.srcIP = b.destIP AND b.ts BETWEEN a.ts - INTERVAL 2 MINUTES AND a.ts + INTERVAL 3 MINUTES;
SELECT * FROM packets a, other b WHERE a.srcIP = b.destIP AND b.ts >= a.ts - INTERVAL '2' MINUTE AND b.ts <= a.ts + INTERVAL '3' MINUTE;
SELECT * FROM packets a INNER JOIN other b ON a.srcIP = b.destIP WHERE b.ts BETWEEN a.ts - INTERVAL 2 MINUTES AND a.ts + INTERVAL 3 MINUTES;
SELECT * FROM (packets a JOIN other b ON a.srcIP = b.destIP AND a.ts BETWEEN b.ts - INTERVAL 3 MINUTES AND b.ts + INTERVAL 2 MINUTES);

-- python: packets.alias("a").join(other.alias("b"), on="a.srcIP = b.srcIP AND b.ts >= a.ts AND b.ts < a.ts + INTERVAL 1 MINUTE").where("a_len > 5").select("a_srcIP AS srcIP", "b_ts AS ts")
SELECT a.srcIP, b.ts FROM packets a JOIN other b ON a.srcIP = b.srcIP AND b.ts >= a.ts AND b.ts < a.ts + INTERVAL 1 MINUTE WHERE a.len > 5;
SELECT a.srcIP, b.ts FROM packets a, other b WHERE a.srcIP = b.srcIP AND b.ts >= a.ts AND b.ts < a.ts + INTERVAL 1 MINUTE AND a.len > 5;
SELECT a.srcIP, b.ts FROM packets a JOIN other b ON a.srcIP = b.srcIP WHERE b.ts >= a.ts AND b.ts < a.ts + INTERVAL 1 MINUTE AND a.len > 5;

-- python: packets.join(other, on=["srcIP", "other.ts BETWEEN packets.ts AND packets.ts + INTERVAL 1 SECOND"])
SELECT * FROM packets JOIN other USING (srcIP) WHERE other.ts BETWEEN packets.ts AND packets.ts + INTERVAL 1 SECOND;

-- python: packets.alias("a").join(other.alias("b"), on="a.srcIP = b.srcIP AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS", how="left")
SELECT * FROM packets a LEFT JOIN other b ON a.srcIP = b.srcIP AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS;
SELECT * FROM packets a LEFT OUTER JOIN other b ON a.srcIP = b.srcIP AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '5' SECOND;

-- python: packets.alias("a").join(other.alias("b"), on="a.srcIP = b.srcIP AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS", how="right")
SELECT * FROM packets a RIGHT JOIN other b ON a.srcIP = b.srcIP AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS;

-- python: packets.alias("a").join(other.alias("b"), on="a.srcIP = b.srcIP AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS", how="full").where("a_len IS NULL")
SELECT * FROM packets a FULL OUTER JOIN other b ON a.srcIP = b.srcIP AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS WHERE a.len IS NULL;
SELECT * FROM packets a FULL JOIN other b ON a.srcIP = b.srcIP AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS WHERE a.len IS NULL;

-- python: packets.alias("a").join(other.alias("b"), on="a.srcIP = b.srcIP AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS", how="left_semi")
SELECT * FROM packets a LEFT SEMI JOIN other b ON a.srcIP = b.srcIP AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS;
SELECT a.* FROM packets a SEMI JOIN other b ON a.srcIP = b.srcIP AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS;

-- python: packets.alias("a").join(other.alias("b"), on="a.srcIP = b.srcIP AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS", how="left_anti").select("srcIP", "ts")
SELECT srcIP, ts FROM packets a LEFT ANTI JOIN other b ON a.srcIP = b.srcIP AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS;
SELECT a.srcIP, a.ts FROM packets a ANTI JOIN other b ON a.srcIP = b.srcIP AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS;

-- python: packets.alias("a").join(packets.alias("b"), on="a.srcIP = b.destIP AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS").select("a_ts AS x", "b_ts AS y")
SELECT a.ts AS x, b.ts AS y FROM packets a JOIN packets b ON a.srcIP = b.destIP AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS;
SELECT a.ts x, b.ts y FROM packets a, packets b WHERE a.srcIP = b.destIP AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS;

-- python: packets.alias("a").join(other.alias("b"), on="a.srcIP = b.srcIP", within=sw.window("5 minutes"))
SELECT * FROM packets a, other b [RANGE TUMBLING 5 MINUTES WATTR ts] WHERE a.srcIP = b.srcIP;
SELECT * FROM packets a JOIN other b [RANGE TUMBLING 5 MINUTES] ON a.srcIP = b.srcIP;
SELECT * FROM TUMBLE(packets, ts, INTERVAL 5 MINUTES) a JOIN TUMBLE(other, ts, INTERVAL 5 MINUTES) b ON a.srcIP = b.srcIP AND a.window_start = b.window_start AND a.window_end = b.window_end;
SELECT * FROM (SELECT * FROM TABLE(TUMBLE(TABLE packets, DESCRIPTOR(ts), INTERVAL '5' MINUTES))) a JOIN (SELECT * FROM TABLE(TUMBLE(TABLE other, DESCRIPTOR(ts), INTERVAL '5' MINUTES))) b ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.srcIP = b.srcIP;
SELECT * FROM TUMBLE(packets, ts, INTERVAL 5 MINUTES) a, TUMBLE(other, ts, INTERVAL 5 MINUTES) b WHERE a.srcIP = b.srcIP AND a.window_start = b.window_start AND a.window_end = b.window_end;

-- python: sw.joinAll([packets.alias("a"), other.alias("b"), packets.alias("c")], on=["srcIP"], within=["5 seconds", "5 seconds", "1 second"])
SELECT * FROM packets a [RANGE 5 SECONDS], other b [RANGE 5 SECONDS], packets c [RANGE 1 SECOND] WHERE a.srcIP = b.srcIP AND b.srcIP = c.srcIP;
SELECT * FROM packets a [RANGE 5 SECONDS], other b [RANGE 5 SECONDS], packets c [RANGE 1 SECOND] WHERE c.srcIP = b.srcIP AND a.srcIP = c.srcIP;

-- python: sw.joinAll([packets.alias("a"), other.alias("b"), packets.alias("c")], on=["srcIP"], within=sw.window("1 minute"))
SELECT * FROM packets a, other b, packets c [RANGE TUMBLING 1 MINUTE] WHERE a.srcIP = b.srcIP AND b.srcIP = c.srcIP;

-- python: packets.alias("a").join(other.alias("b"), on="a.srcIP = b.srcIP AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS", emit="ordered")
SELECT * FROM packets a JOIN other b ON a.srcIP = b.srcIP AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS EMIT ORDERED;

-- python: packets.alias("a").join(other.alias("b"), on="a.srcIP = b.srcIP AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS").withQuality(sw.Quality(recall=0.95, over="60 seconds"))
SELECT * FROM packets a JOIN other b ON a.srcIP = b.srcIP AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS WITH RECALL 95 % OVER 60 SECONDS;
SELECT * FROM packets a JOIN other b ON a.srcIP = b.srcIP AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS EMIT IMMEDIATE WITH RECALL 95 % OVER 1 MINUTE;

-- python: packets.alias("a").join(other.alias("b"), on="a.srcIP = b.srcIP AND b.ts BETWEEN a.ts - INTERVAL 2 MINUTES AND a.ts + INTERVAL 2 MINUTES").groupBy(sw.window("1 microsecond", on="a_ts"), sw.window("1 microsecond", on="b_ts")).agg("count(*) AS n").select("a_ts_window.start AS x", "b_ts_window.start AS y", "n")
SELECT a.ts AS x, b.ts AS y, count(*) AS n FROM packets a JOIN other b ON a.srcIP = b.srcIP AND b.ts BETWEEN a.ts - INTERVAL 2 MINUTES AND a.ts + INTERVAL 2 MINUTES GROUP BY a.ts, b.ts;
SELECT a.ts AS x, b.ts AS y, count(*) AS n FROM packets a [RANGE 2 MINUTES], other b [RANGE 2 MINUTES] WHERE a.srcIP = b.srcIP GROUP BY a.ts, b.ts;

-- python: packets.alias("a").join(other.alias("b"), on="a.srcIP = b.srcIP", within=sw.band(before="1 minute", after="1 minute")).groupBy(sw.window("1 minute", on="a_ts")).agg("count(*) AS n").select("n")
SELECT count(*) [RANGE 1 MINUTE, WA a.ts] AS n FROM packets a [RANGE 1 MINUTE], other b [RANGE 1 MINUTE] WHERE a.srcIP = b.srcIP;
SELECT count(*) AS n FROM packets a [RANGE 1 MINUTE] JOIN other b [RANGE 1 MINUTE] ON a.srcIP = b.srcIP GROUP BY window(a.ts, '1 minute');

-- python: packets.alias("a").join(other.alias("b"), on=["srcIP", "b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 SECOND"]).join(other.alias("c"), on=["srcIP", "c.ts BETWEEN a_ts AND a_ts + INTERVAL 1 SECOND"]).select("srcIP", "a_len AS len", "b_len AS l2", "destIP AS d")
SELECT srcIP, a.len, b.len l2, c.destIP d FROM packets a JOIN other b USING (srcIP) JOIN other c USING (srcIP) WHERE b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 SECOND AND c.ts BETWEEN a.ts AND a.ts + INTERVAL 1 SECOND;

-- python: packets.union(other).alias("u").groupBy("srcIP", sw.window("1 minute")).agg("count(*) AS n").select("srcIP", "n")
SELECT srcIP, count(*) AS n FROM (SELECT * FROM packets UNION ALL SELECT * FROM other) u [RANGE 1 MINUTE WATTR ts] GROUP BY srcIP;
SELECT u.srcIP, count(*) AS n FROM (SELECT * FROM packets UNION ALL SELECT * FROM other) u GROUP BY u.srcIP, window(u.ts, '1 minute');
WITH u AS (SELECT * FROM packets UNION ALL SELECT * FROM other) SELECT srcIP, count(*) AS n FROM TUMBLE(u, ts, INTERVAL 1 MINUTE) GROUP BY srcIP, window_end;
SELECT srcIP, count(*) AS n FROM TUMBLE(TABLE (SELECT * FROM packets UNION ALL SELECT * FROM other), DESCRIPTOR(ts), INTERVAL 1 MINUTE) GROUP BY srcIP, window_end;

-- python: packets.where("srcIP IN ('10.0.0.1', '10.0.0.2')").groupBy("srcIP", sw.window("1 minute")).agg("count(*) AS n").select("srcIP", "n")
SELECT srcIP, count(*) AS n FROM packets WHERE srcIP IN ('10.0.0.1', '10.0.0.2') GROUP BY srcIP, window(ts, '1 minute');
SELECT srcIP, count(*) AS n FROM packets [RANGE 1 MINUTE WA ts] WHERE srcIP IN ('10.0.0.1', '10.0.0.2') GROUP BY srcIP;
SELECT srcIP, count(*) AS n FROM TUMBLE(packets, ts, INTERVAL '1' MINUTE) WHERE srcIP IN ('10.0.0.1', '10.0.0.2') GROUP BY srcIP, window_start;
SELECT srcIP, count(*) AS n FROM (SELECT * FROM TUMBLE(packets, ts, INTERVAL 1 MINUTE) WHERE srcIP IN ('10.0.0.1', '10.0.0.2')) GROUP BY srcIP, window_start;
SELECT srcIP, count(*) [RANGE 1 MINUTE, WA ts] AS n FROM packets WHERE srcIP IN ('10.0.0.1', '10.0.0.2') GROUP BY srcIP;

-- python: packets.groupBy("srcIP", "destIP", sw.window("250 milliseconds")).agg("avg(len) AS a", "min(len) AS lo", "max(len) AS hi").select("srcIP", "destIP", "a", "lo", "hi")
SELECT srcIP, destIP, avg(len) AS a, min(len) AS lo, max(len) AS hi FROM packets GROUP BY srcIP, destIP, window(ts, '250 milliseconds');
SELECT srcIP, destIP, avg(len) AS a, min(len) AS lo, max(len) AS hi FROM packets [RANGE 250 MILLISECONDS] GROUP BY 1, 2;
SELECT srcIP, destIP, avg(len) a, min(len) lo, max(len) hi FROM TUMBLE(packets, ts, INTERVAL '0.25' SECOND) GROUP BY srcIP, destIP, window_start;

-- python: packets.groupBy("router", sw.window("7 days")).agg("count(*) AS n").select("router", "window.start AS s", "n")
SELECT router, window_start AS s, count(*) AS n FROM packets GROUP BY router, window(ts, '1 week');
SELECT router, window_start AS s, count(*) AS n FROM packets [RANGE 7 DAYS] GROUP BY router;
SELECT router, window_start AS s, count(*) AS n FROM TUMBLE(packets, ts, INTERVAL 1 WEEK) GROUP BY router, window_start;

-- python: packets.groupBy("srcIP", sw.window("10 seconds", "15 seconds")).agg("count(*) AS n").select("srcIP", "n")
SELECT srcIP, count(*) AS n FROM packets [RANGE 10 SECONDS SLIDE 15 SECONDS] GROUP BY srcIP;
SELECT srcIP, count(*) AS n FROM packets [SLIDE '15 seconds' RANGE '10 seconds'] GROUP BY srcIP;

-- python: packets.groupBy("srcIP", sw.window("1 minute")).agg("percentile_approx(len, 0.5) AS p", "collect_list(len) AS xs", "max_by(destIP, len) AS d").select("srcIP", "p", "xs", "d")
SELECT srcIP, percentile_approx(len, 0.5) AS p, collect_list(len) AS xs, max_by(destIP, len) AS d FROM packets GROUP BY srcIP, window(ts, '1 minute');
SELECT srcIP, percentile_approx(len, 0.5) p, collect_list(len) xs, max_by(destIP, len) d FROM packets [RANGE 1 MINUTE] GROUP BY srcIP;

-- python: packets.groupBy("srcIP", sw.window("1 minute")).agg("count(*) AS n").where("n > 2")
SELECT srcIP, wid, window, count(*) AS n FROM packets [RANGE 1 MINUTE] GROUP BY srcIP HAVING n > 2;
SELECT srcIP, wid, window, count(*) AS n FROM packets [RANGE 1 MINUTE] GROUP BY srcIP HAVING count(*) > 2;

-- python: packets.select("srcIP", "len", "ts").where("len > 3").select("srcIP", "ts")
SELECT srcIP, ts FROM (SELECT srcIP, len, ts FROM packets) WHERE len > 3;
SELECT s.srcIP, s.ts FROM (SELECT srcIP, len, ts FROM packets) AS s WHERE s.len > 3;
WITH s AS (SELECT srcIP, len, ts FROM packets), t AS (SELECT * FROM s WHERE len > 3) SELECT srcIP, ts FROM t;

-- python: packets.alias("a").join(other.alias("b"), on="a.srcIP = b.srcIP AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 MINUTE", where="a_len + b_len > 100")
SELECT * FROM packets a JOIN other b ON a.srcIP = b.srcIP AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 MINUTE AND a.len + b.len > 100;
SELECT * FROM packets a JOIN other b ON (a.srcIP = b.srcIP) AND (b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 MINUTE) AND (a.len + b.len > 100);
SELECT * FROM packets a, other b WHERE a.srcIP = b.srcIP AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 MINUTE AND a.len + b.len > 100;

-- python: packets.alias("a").join(other.alias("b"), on="a.ts = b.ts")
SELECT * FROM packets a JOIN other b ON a.ts = b.ts;
SELECT * FROM packets a, other b WHERE a.ts = b.ts;

-- python: packets.groupBy("srcIP", sw.window("1 minute")).agg("count(*) AS n").withQuality(sw.Quality(error=0.05, confidence=0.9, per="group"))
SELECT srcIP, wid, window, count(*) AS n FROM packets [RANGE 1 MINUTE] GROUP BY srcIP WITH ERROR 5 % CONFIDENCE 90 % PER GROUP;
SELECT srcIP, wid, window, count(*) AS n FROM packets GROUP BY srcIP, window(ts, '1 minute') WITH ERROR 5 % CONFIDENCE 90 % PER GROUP;

-- python: packets.select("transform(array(1, 2), p -> p + 1) AS xs", "len", "ts")
SELECT transform(array(1, 2), p -> p + 1) AS xs, p.len, p.ts FROM packets p;
SELECT transform(array(1, 2), p -> p + 1) xs, len, ts FROM packets AS p;

-- python: packets.groupBy("len", sw.window("1 minute")).agg("(len % 2)", "sum(len) AS s").select("`(len % 2)` AS len", "s")
SELECT len % 2 AS len, sum(len) AS s FROM packets GROUP BY len, window(ts, '1 minute');
SELECT len % 2 AS len, sum(len) AS s FROM packets [RANGE 1 MINUTE] GROUP BY len;

-- python: packets.select("named_struct('x', len, 'y', ts) AS st", "ts").select("st.x AS x", "st.y AS y", "ts")
SELECT st.*, ts FROM (SELECT named_struct('x', len, 'y', ts) AS st, ts FROM packets);
SELECT q.st.x, q.st.y, q.ts FROM (SELECT named_struct('x', len, 'y', ts) AS st, ts FROM packets) q;

-- python: packets.groupBy("srcIP", sw.sessionWindow("5 minutes", closed=True)).agg("count(*) AS n").select("srcIP", "window.start AS s", "window.end AS e", "n")
SELECT srcIP, session_window.start AS s, session_window.end AS e, count(*) AS n FROM packets GROUP BY srcIP, session_window(ts, '5 minutes');
SELECT srcIP, window_start AS s, window_end AS e, count(*) AS n FROM packets GROUP BY srcIP, session_window(ts, '300 seconds');
SELECT srcIP, window_start AS s, window_end AS e, count(*) AS n FROM SESSION(TABLE packets PARTITION BY srcIP, DESCRIPTOR(ts), INTERVAL '5' MINUTES) GROUP BY srcIP, window_start, window_end;
SELECT srcIP, window_start AS s, window_end AS e, count(*) AS n FROM TABLE(SESSION(DATA => TABLE packets PARTITION BY (srcIP), TIMECOL => DESCRIPTOR(ts), GAP => INTERVAL 5 MINUTES)) GROUP BY srcIP, window_start, window_end;
SELECT srcIP, session_window(ts, '5 minutes').start AS s, window_end AS e, count(*) AS n FROM packets GROUP BY 1, session_window(ts, '5 minutes');

-- python: packets.groupBy("srcIP", "destIP", sw.sessionWindow("5 minutes", closed=True)).agg("sum(len) AS n").select("srcIP", "destIP", "n", "window.end - INTERVAL 1 MICROSECOND AS t")
SELECT srcIP, destIP, sum(len) AS n, window_time AS t FROM SESSION(TABLE packets PARTITION BY destIP, srcIP, DESCRIPTOR(ts), INTERVAL 5 MINUTES) GROUP BY srcIP, destIP, window_start, window_end;
SELECT srcIP, destIP, sum(len) AS n, window_time(session_window) AS t FROM packets GROUP BY srcIP, destIP, session_window(ts, '5 minutes');

-- python: packets.groupBy(sw.sessionWindow("5 minutes", closed=True)).agg("count(*) AS n").select("window AS session_window", "n")
SELECT session_window, count(*) AS n FROM packets GROUP BY session_window(ts, INTERVAL 5 MINUTES);

-- python: packets.alias("a").join(other.alias("b"), on="a.srcIP = b.srcIP AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS", how="left_semi").select("len", "ts")
SELECT len, ts FROM packets a LEFT SEMI JOIN other b ON a.srcIP = b.srcIP AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS;
SELECT a.len, a.ts FROM packets a SEMI JOIN other b ON a.srcIP = b.srcIP AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS;

-- python: packets.alias("a").join(other.alias("b"), on="a.srcIP = b.srcIP AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS").select("transform(array(1), len -> len + 1) AS t", "a_ts AS ts")
SELECT transform(array(1), len -> len + 1) AS t, a.ts FROM packets a JOIN other b ON a.srcIP = b.srcIP AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS;

-- python: packets.groupBy("srcIP", sw.window("1 minute")).agg("count(*) AS n").select("srcIP", "n", "window").groupBy("srcIP", sw.window("5 minutes")).agg("sum(n) AS m").select("srcIP", "m")
SELECT srcIP, sum(n) AS m FROM (SELECT srcIP, count(*) AS n, window FROM packets GROUP BY srcIP, window(ts, '1 minute')) GROUP BY srcIP, window(window, '5 minutes');
SELECT srcIP, sum(n) AS m FROM (SELECT srcIP, count(*) AS n, window FROM packets GROUP BY srcIP, window(ts, '1 minute')) GROUP BY srcIP, window(window_time(window), '5 minutes');

-- python: packets.groupBy("srcIP", sw.landmark("1 minute", "2026-01-01 00:00:00", on="ts")).agg("count(*) AS n").select("srcIP", "window.end AS window_end", "n")
SELECT srcIP, window_end, count(*) AS n FROM LANDMARK(TABLE packets, DESCRIPTOR(ts), INTERVAL 1 MINUTE, TIMESTAMP '2026-01-01 00:00:00') GROUP BY srcIP, window_end;
SELECT srcIP, window_end, count(*) AS n FROM LANDMARK(packets, ts, '1 minute', ORIGIN => '2026-01-01 00:00:00') GROUP BY srcIP, window_start, window_end;
SELECT srcIP, window_end, count(*) AS n FROM packets [RANGE ALL SLIDE 1 MINUTE WATTR ts ORIGIN '2026-01-01 00:00:00'] GROUP BY srcIP;

-- python: events.groupBy(sw.rows(100)).agg("max(len) AS m").select("m")
SELECT max(len) AS m FROM ROWS(TABLE events, 100) GROUP BY window_end;
SELECT max(len) AS m FROM STREAM events [RANGE 100 ROWS];

-- python: packets.groupBy("srcIP", sw.window("1 minute")).agg("count(*) AS n").where("srcIP = 'a'").select("srcIP AS kk", "n")
SELECT srcIP AS kk, count(*) AS n FROM packets GROUP BY srcIP, window(ts, '1 minute') HAVING kk = 'a';
SELECT srcIP AS kk, count(*) AS n FROM packets GROUP BY kk, window(ts, '1 minute') HAVING srcIP = 'a';
SELECT p.srcIP AS kk, count(*) AS n FROM TUMBLE(packets, ts, INTERVAL 1 MINUTE) p GROUP BY 1, window_start HAVING `KK` = 'a';

-- python: packets.groupBy("srcIP", sw.window("5 minutes", "1 minute")).agg("count(*) AS n").where("window.start > TIMESTAMP '2026-01-01 00:00:00Z'").select("srcIP", "n")
SELECT srcIP, count(*) AS n FROM HOP(packets, ts, INTERVAL 1 MINUTE, INTERVAL 5 MINUTES) GROUP BY srcIP, window_start HAVING window_start > TIMESTAMP '2026-01-01 00:00:00Z';
SELECT srcIP, count(*) AS n FROM HOP(packets, ts, INTERVAL 1 MINUTE, INTERVAL 5 MINUTES) h WHERE h.window_start > TIMESTAMP '2026-01-01 00:00:00Z' GROUP BY srcIP, window_start;
SELECT srcIP, count(*) AS n FROM packets [RANGE 5 MINUTES SLIDE 1 MINUTE] WHERE window_start > TIMESTAMP '2026-01-01 00:00:00Z' GROUP BY srcIP;
SELECT srcIP, count(*) AS n FROM (SELECT * FROM HOP(packets, ts, INTERVAL 1 MINUTE, INTERVAL 5 MINUTES) WHERE window.start > TIMESTAMP '2026-01-01 00:00:00Z') GROUP BY srcIP, window_start;

-- python: packets.where("(timestamp_micros(unix_micros(ts) - pmod(unix_micros(ts), 60000000L)) > TIMESTAMP '2026-01-01 00:00:00Z' OR len > 3)").groupBy("srcIP", sw.window("1 minute")).agg("count(*) AS n").select("srcIP", "n")
SELECT srcIP, count(*) AS n FROM TUMBLE(packets, ts, INTERVAL 1 MINUTE) WHERE window_start > TIMESTAMP '2026-01-01 00:00:00Z' OR len > 3 GROUP BY srcIP, window_start;

-- python: packets.alias("a").join(other.alias("b"), "a.srcIP <=> b.srcIP", sw.window("5 minutes"), "left")
SELECT * FROM TUMBLE(packets, ts, INTERVAL 5 MINUTES) a LEFT JOIN TUMBLE(other, ts, INTERVAL 5 MINUTES) b ON a.srcIP <=> b.srcIP AND a.window_start = b.window_start AND a.window_end = b.window_end;
SELECT * FROM packets a LEFT JOIN other b [RANGE TUMBLING 5 MINUTES] ON a.srcIP IS NOT DISTINCT FROM b.srcIP;

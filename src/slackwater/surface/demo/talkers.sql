-- Who sends most, over ten seconds, every second.
-- slackwater run talkers.sql --set work=. --set trigger='1 second'
SET checkpointLocation = '${work}/checkpoint';
SET trigger = '${trigger}';

CREATE STREAM packets (srcIP STRING, destIP STRING, len INT, ts TIMESTAMP, router STRING, offset BIGINT)
  USING parquet OPTIONS (path '${work}/packets')
  TIME ts PROGRESS DELAY 2 SECONDS IDLE AFTER 4 SECONDS FUTURE GUARD 1 MINUTE ASIDE
  PARTITION BY router ('main1', 'main2');

CREATE STREAMING TABLE talkers USING parquet OPTIONS (path '${work}/talkers') AS
  SELECT srcIP, wid, window, count(*) AS packets, sum(len) AS bytes
  FROM packets [RANGE 10 SECONDS SLIDE 1 SECOND WATTR ts]
  GROUP BY srcIP;

CREATE STREAMING TABLE late USING parquet OPTIONS (path '${work}/late') AS
  SELECT * FROM LATE(packets);

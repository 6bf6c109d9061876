-- All that is written to Redis, so that each writing is atomic and stands under the fence.
--
-- KEYS, always all of them, in this order ($ is the configured prefix):
--   1  $fence        string: the last fence given out; never expires
--   2  $leader       hash holder, fence, renewals: the lease on the leadership; expires with it
--   3  $saves        string: the number of the last save under the last fence; its holder numbers what it sends
--   4  $jobs         hash: job id -> Job as encoded by the wire's codec
--   5  $workers      hash: worker name -> Worker, likewise
--   6  $events       stream: the timeline, entries with fields at (seconds since the epoch) and note; capped
--   7  $points:      what the key of each job's loss history begins with; its id follows:
--      $points:JOB   sorted set: encoded StepPoints scored by step; capped
--      $points::rehearsal   anything, within one script: `rehearse`
--   8  $histories   sorted set: ids of the jobs that have one, in the order in which they were lengthened last
--   9  $measured    string: how many points all histories have together
--   10 $standbys     sorted set: "URL holder" of those that wait, scored by the instant (ms) until which each counts
--   11 $voided       hash: job id -> the number of the last save under the last fence that made points of it void
-- ARGV[1] names what to do; what follows it stands above each function. Needs Redis 6.2 (`redis_advice`).

local FENCE, LEADER, SAVES, JOBS, WORKERS, EVENTS, POINTS, HISTORIES, MEASURED, STANDBYS, VOIDED = unpack(KEYS)
local position = 0
local does = {}

local function take() -- one by one: unpacking thousands of arguments would overflow Lua's stack
  position = position + 1
  return ARGV[position]
end

local function fence()
  return tonumber(redis.call('GET', FENCE) or '0')
end

local function leads(holder, number)
  local held = redis.call('HMGET', LEADER, 'holder', 'fence')
  if held[1] then return held[1] == holder and held[2] == number end
  return fence() == tonumber(number) -- the lease ran out, and nobody took it since
end

-- holder, lease in ms -> the new fence; nothing if somebody leads
function does.acquire()
  local holder, lease = take(), take()
  if redis.call('EXISTS', LEADER) == 1 then return false end
  local number = redis.call('INCR', FENCE)
  redis.call('SET', SAVES, 0)
  redis.call('DEL', VOIDED)
  redis.call('HSET', LEADER, 'holder', holder, 'fence', number, 'renewals', 0)
  redis.call('PEXPIRE', LEADER, lease)
  return number
end

-- holder, fence, lease in ms -> 1, or 0 if another leads or led since
function does.renew()
  local holder, number, lease = take(), take(), take()
  if not leads(holder, number) then return 0 end
  redis.call('HSET', LEADER, 'holder', holder, 'fence', number)
  redis.call('HINCRBY', LEADER, 'renewals', 1)
  redis.call('PEXPIRE', LEADER, lease)
  return 1
end

-- holder, fence: the fence is used up, so that nothing is saved under it any more
function does.release()
  if leads(take(), take()) then
    redis.call('INCR', FENCE)
    redis.call('DEL', LEADER)
  end
end

local function forget_standbys() -- that did not say again that they wait -> the instant of now
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  redis.call('ZREMRANGEBYSCORE', STANDBYS, '-inf', now)
  return now
end

-- who waits, for so many ms; 0: not any more
function does.stand_by()
  local who, lease, now = take(), tonumber(take()), forget_standbys()
  if lease > 0 then redis.call('ZADD', STANDBYS, now + lease, who) else redis.call('ZREM', STANDBYS, who) end
end

-- -> all that wait
function does.standbys()
  forget_standbys()
  return redis.call('ZRANGE', STANDBYS, 0, -1)
end

-- fence, the save's number, events kept, at, then five times a count and so many:
-- (id, job), (name, worker), gone name, (id of a job, the step from which on its points are void), note
-- -> {1, the new events' ids ...}, or {0, the last fence} with nothing written. So ends also a save that was given up,
-- lay in the network, and comes when a later one is done: nobody waits for its answer.
function does.save()
  local number, count, kept, at = take(), tonumber(take()), take(), take()
  if fence() ~= tonumber(number) or count <= tonumber(redis.call('GET', SAVES) or '0') then
    return { 0, tostring(fence()) }
  end
  redis.call('SET', SAVES, count)
  for _ = 1, take() do redis.call('HSET', JOBS, take(), take()) end
  for _ = 1, take() do redis.call('HSET', WORKERS, take(), take()) end
  for _ = 1, take() do redis.call('HDEL', WORKERS, take()) end
  for _ = 1, take() do
    local job, step = take(), take()
    redis.call('HSET', VOIDED, job, count)
    redis.call('DECRBY', MEASURED, redis.call('ZREMRANGEBYSCORE', POINTS .. job, step, '+inf'))
    if redis.call('EXISTS', POINTS .. job) == 0 then redis.call('ZREM', HISTORIES, job) end
  end
  local answer = { 1 }
  for _ = 1, take() do
    answer[#answer + 1] = redis.call('XADD', EVENTS, 'MAXLEN', kept, '*', 'at', at, 'note', take())
  end
  return answer
end

-- all that is done elsewhere, on a key of its own, so that a right, memory or disk that is missing shows at the start
function does.rehearse()
  local key = POINTS .. ':rehearsal' -- no job is called that
  local call = redis.call
  call('SET', key, 0) -- first: once a script has deleted anything, a full memory is no reason to refuse it
  call('TIME'); call('EXISTS', key); call('INCR', key); call('INCRBY', key, 1); call('DECRBY', key, 1)
  call('GET', key); call('DEL', key)
  call('HSET', key, 'a', 1); call('HINCRBY', key, 'a', 1); call('HMGET', key, 'a'); call('HSCAN', key, 0)
  call('PEXPIRE', key, 60000); call('PTTL', key); call('HDEL', key, 'a'); call('DEL', key)
  call('ZADD', key, 1, 'a'); call('ZRANGE', key, '(0', '+inf', 'BYSCORE', 'LIMIT', 0, 1); call('ZREM', key, 'a')
  call('ZCARD', key); call('ZREMRANGEBYSCORE', key, 0, 1); call('ZREMRANGEBYRANK', key, 0, -1); call('DEL', key)
  call('XADD', key, 'MAXLEN', 1, '*', 'a', 1); call('XRANGE', key, '(0-1', '+', 'COUNT', 1); call('DEL', key)
end

local function thin(kept, fewest) -- the histories that were lengthened longest ago, until all have so many points
  local all = tonumber(redis.call('GET', MEASURED))
  while all > kept do
    local job = redis.call('ZRANGE', HISTORIES, 0, 0)[1]
    if not job then return redis.call('SET', MEASURED, 0) end -- somebody removed keys by hand
    local size = redis.call('ZCARD', POINTS .. job)
    local left = math.floor((size + 1) / 2)
    if left < fewest then
      left = 0
      redis.call('DEL', POINTS .. job)
      redis.call('ZREM', HISTORIES, job)
    else
      for rank = size - 2, 0, -2 do redis.call('ZREMRANGEBYRANK', POINTS .. job, rank, rank) end -- its last stays
    end
    all = redis.call('DECRBY', MEASURED, size - left)
  end
end

-- fence, its number, job, points kept, of all jobs, and of one at least, then pairs of (step, point)
-- -> 1, or with nothing written: 0 if another led since, -1 if a save that was sent later made points of this job void.
-- So ends also one that was given up, and comes when what it measured is void; other saves do not overtake it.
function does.append()
  local number, count, job, kept = take(), tonumber(take()), take(), take()
  local all, fewest = tonumber(take()), tonumber(take())
  local points = POINTS .. job
  if fence() ~= tonumber(number) then return 0 end
  if count < tonumber(redis.call('HMGET', VOIDED, job)[1] or '0') then return -1 end
  local before = redis.call('ZCARD', points)
  while position < #ARGV do
    local step, point = take(), take()
    redis.call('ZREMRANGEBYSCORE', points, step, step)
    redis.call('ZADD', points, step, point)
  end
  redis.call('ZREMRANGEBYRANK', points, 0, -1 - kept)
  local last = redis.call('ZRANGE', HISTORIES, -1, -1, 'WITHSCORES')
  redis.call('ZADD', HISTORIES, (last[2] or 0) + 1, job)
  redis.call('INCRBY', MEASURED, redis.call('ZCARD', points) - before)
  thin(all, fewest)
  return 1
end

return does[take()]()

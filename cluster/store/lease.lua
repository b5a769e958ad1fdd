-- Carries out one lease call, as Ledger.Lease of package cluster does: that is where the rules are explained.
--
-- KEYS: meta, live, calls, limits, index, then the hash of each key that the call asks for. All have one hash tag.
-- ARGV: replica, call, ttl, then for each key: its name in limits, its pool's name in limits, its member in index,
--       start, limit, keep, wants.
-- Returns "late" or "full", or the time, for how long grants don't grow, how many replicas were forgotten, and for each
-- key its grant, target and safe.
--
-- meta    hash: booted, learns (until when), joined (the number of the last replica)
-- live    sorted set: replica, by the end of its lease
-- calls   hash: replica -> number, last call
-- limits  hash: limits that were set by hand. The only one of these keys that does not expire
-- index   sorted set: the keys, by the end of their last lease
-- a key   hash: "r:" replica -> grant, wants, limit, number, end of the lease
--               "m" -> granted, limit, override, level, spare, has odd, first, last, count, divided
local TURN_EVERY, FEW_CLAIMS, MOST_REAPED, MAX_REPLICAS = 10000, 8, 64, 4096
local MAX_TTL, MAX_COUNT, NO_LEVEL, KEPT_FOR = 60000, 1000000, 2147483647, 600000

local replica, call, ttl = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function text(...)
  local words = {...}
  for i, n in ipairs(words) do words[i] = string.format('%.0f', n) end
  return table.concat(words, ' ')
end

local function numbers(value)
  local list = {}
  for word in string.gmatch(value, '%S+') do list[#list + 1] = tonumber(word) end
  return list
end

-- boot
local meta = redis.call('HMGET', KEYS[1], 'booted', 'learns', 'joined')
local booted, learns, joined = tonumber(meta[1] or 0), tonumber(meta[2] or 0), tonumber(meta[3] or 0)
if booted == 0 or now < booted then
  booted, learns = now, now + ttl
elseif now < learns then
  learns = math.max(learns, booted + ttl)
end

-- reap
local ended = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, MOST_REAPED)
for _, name in ipairs(ended) do
  redis.call('ZREM', KEYS[2], name)
  redis.call('HDEL', KEYS[3], name)
end

-- the caller
local number, last = 0, 0
local member = redis.call('HGET', KEYS[3], replica)
if member then
  local m = numbers(member)
  number, last = m[1], m[2]
else
  if redis.call('ZCARD', KEYS[2]) >= MAX_REPLICAS then return {'full'} end
  joined = joined + 1
  number = joined
end
redis.call('HSET', KEYS[1], 'booted', text(booted), 'learns', text(learns), 'joined', text(joined))
redis.call('PEXPIRE', KEYS[1], KEPT_FOR)
if call < last then return {'late'} end
local repeated = call == last
if not repeated then
  redis.call('HSET', KEYS[3], replica, text(number, call))
  redis.call('ZADD', KEYS[2], now + ttl, replica)
  redis.call('PEXPIRE', KEYS[2], KEPT_FOR)
  redis.call('PEXPIRE', KEYS[3], KEPT_FOR)
end
local live = redis.call('ZCARD', KEYS[2])

-- giveOdd of Divide: one permit more for so many, from the one that is start places behind the first. Claims are one
-- number each, wants * RADIX + number, since sorting numbers is several times as fast as sorting tables.
local RADIX = 4294967296
local function giveOdd(d, odd, claims, start)
  if odd == 0 then return end
  local byNumber, n = {}, #claims
  for i, claim in ipairs(claims) do
    local wants = math.floor(claim / RADIX)
    byNumber[i] = (claim - wants * RADIX) * 1048576 + wants
  end
  table.sort(byNumber)
  local at = start % n
  d.odd, d.first = 1, math.floor(byNumber[at + 1] / 1048576)
  while odd > 0 do
    local who = math.floor(byNumber[at + 1] / 1048576)
    if d.level == NO_LEVEL or byNumber[at + 1] - who * 1048576 > d.level then
      d.last = who
      odd = odd - 1
    end
    at = (at + 1) % n
  end
end

local function divide(limit, claims, start, turn)
  local d = {level = 0, spare = 0, odd = 0, first = 0, last = 0}
  local n = #claims
  if n == 0 or limit <= 0 then return d end
  table.sort(claims)
  local rest = limit
  for i, claim in ipairs(claims) do
    local wanting, wants = n - i + 1, math.floor(claim / RADIX)
    if wants * wanting > rest then
      d.level = math.floor(rest / wanting)
      if d.level == 0 then start = start + turn end
      giveOdd(d, rest % wanting, claims, start)
      return d
    end
    rest = rest - wants
  end
  local parts = math.max(n, live)
  d.level, d.spare = NO_LEVEL, math.floor(rest / parts)
  local odd = rest % parts
  if odd < n then giveOdd(d, odd, claims, start) else d.spare = d.spare + 1 end
  return d
end

local function share(d, who, wants)
  local s = math.min(wants, d.level) + d.spare
  if d.odd == 1 and (d.level == NO_LEVEL or wants > d.level) then
    local between
    if d.first <= d.last then
      between = d.first <= who and who <= d.last
    else
      between = who >= d.first or who <= d.last
    end
    if between then s = s + 1 end
  end
  return s
end

local function safe(limit)
  if limit == 0 then return 0 end
  return math.max(1, math.floor(limit / math.max(1, live)))
end

local hasLimits = redis.call('EXISTS', KEYS[4]) == 1
local function overrideOf(forKey, forPool)
  if not hasLimits then return -1 end
  local set = redis.call('HMGET', KEYS[4], forKey, forPool)
  return tonumber(set[1] or set[2] or -1)
end

-- Entry.divide: forgets the holders whose lease has ended, and divides the limit among the others.
local function divideEntry(key, override, start)
  local granted, limit, claims = 0, MAX_COUNT, {}
  local fields = redis.call('HGETALL', key)
  for i = 1, #fields, 2 do
    if fields[i] ~= 'm' then
      local grant, wants, itsLimit, who, ends = string.match(fields[i + 1], '^(%d+) (%d+) (%d+) (%d+) (%d+)$')
      ends = tonumber(ends)
      if ends > now + MAX_TTL then
        ends = now + MAX_TTL
        redis.call('HSET', key, fields[i], table.concat({grant, wants, itsLimit, who, text(ends)}, ' '))
      end
      if ends <= now then
        redis.call('HDEL', key, fields[i])
      else
        granted = granted + tonumber(grant)
        limit = math.min(limit, tonumber(itsLimit))
        claims[#claims + 1] = wants * RADIX + who
      end
    end
  end
  if override >= 0 then limit = override end
  local d = divide(limit, claims, start, math.floor(now / TURN_EVERY))
  return granted, limit, d, #claims
end

local reply = {text(now), text(math.max(0, learns - now)), #ended}
local function answer(grant, target, limit)
  reply[#reply + 1] = grant
  reply[#reply + 1] = target
  reply[#reply + 1] = safe(limit)
end

for i = 6, #KEYS do
  local key, at = KEYS[i], 4 + (i - 6) * 7
  local start, limit = tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4])
  local keep, wants = tonumber(ARGV[at + 5]), tonumber(ARGV[at + 6])
  local stored = redis.call('HMGET', key, 'm', 'r:' .. replica)
  local m = stored[1] and numbers(stored[1]) or {0, 0, -1, 0, 0, 0, 0, 0, 0, 0}
  local granted, inForce, made, count, divided = m[1], m[2], m[3], m[9], m[10]
  local d = {level = m[4], spare = m[5], odd = m[6], first = m[7], last = m[8]}
  local h = stored[2] and numbers(stored[2])
  if repeated then
    if h then answer(h[1], share(d, h[4], h[2]), inForce) else answer(0, 0, inForce) end
  else
    local override = overrideOf(ARGV[at], ARGV[at + 1])
    local had = h and h[1] or 0
    if made ~= override or now < divided or now - divided >= count - FEW_CLAIMS then
      redis.call('HSET', key, 'r:' .. replica, text(had, wants, limit, number, now + ttl))
      granted, inForce, d, count = divideEntry(key, override, start)
      made, divided = override, now
    elseif override < 0 then
      inForce = math.min(inForce, limit)
    end
    local target = share(d, number, wants)
    local grant = keep
    if now >= learns then
      grant = math.max(keep, math.min(target, inForce - (granted - had)))
    end
    granted = granted + grant - had
    redis.call('HSET', key, 'r:' .. replica, text(grant, wants, limit, number, now + ttl),
      'm', text(granted, inForce, made, d.level, d.spare, d.odd, d.first, d.last, count, divided))
    redis.call('PEXPIRE', key, KEPT_FOR)
    redis.call('ZADD', KEYS[5], now + ttl, ARGV[at + 2])
    answer(grant, target, inForce)
  end
end
if #KEYS > 5 and not repeated then
  redis.call('ZREMRANGEBYSCORE', KEYS[5], '-inf', now - KEPT_FOR)
  redis.call('PEXPIRE', KEYS[5], KEPT_FOR)
end
return reply

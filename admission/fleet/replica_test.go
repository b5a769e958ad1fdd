package fleet

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/admission"
)

const second = admission.Second

func settings() Settings {
	return Settings{Domain: "d", Replica: "r", Lease: 5 * second, Expected: 3, Seed: 7}
}

// A driver drives a replica with one record, as the filter does.
type driver struct {
	t    *testing.T
	r    *Replica
	now  Time
	read Reading
	put  Share
	puts int
}

func newDriver(t *testing.T, set Settings) *driver {
	d := &driver{t: t, now: second, read: Reading{Pool: "model", Key: "m", Limit: 6}}
	d.r = New(d.now, set)
	d.put = Initial(d.now, &set, 6)
	return d
}

// share is what the record grants now.
func (d *driver) share() int {
	if d.now < d.put.Until {
		return d.put.Limit
	}
	return d.put.After
}

// look observes the record after a while.
func (d *driver) look(after Duration) {
	d.now += after
	d.read.Share = d.share()
	d.r.Observe(d.now, []Reading{d.read})
	d.changes()
}

func (d *driver) changes() {
	d.r.Changes(func(s Share) bool {
		d.put = s
		d.puts++
		return true
	})
}

type sentCall struct {
	Replica string
	Call    int64
	TTL     int64 `json:"ttl_ms"`
	Pools   []struct {
		Pool, Key          string
		Limit, Keep, Wants int
	}
}

// call waits until the next call is due and makes it.
func (d *driver) call() (int64, sentCall) {
	d.t.Helper()
	d.look(0)
	next := d.r.NextCall(d.now)
	require.NotEqual(d.t, Never, next)
	d.look(max(0, next-d.now))
	number, body := d.r.Call(d.now)
	var sent sentCall
	require.NoError(d.t, json.Unmarshal(body, &sent), "%s", body)
	require.Equal(d.t, number, sent.Call)
	return number, sent
}

func (d *driver) answer(number int64, text string) bool {
	d.now += 10 * admission.Millisecond
	ok := d.r.Reply(d.now, number, []byte(text))
	d.changes()
	return ok
}

// exchange makes a call that is answered, and returns the call.
func (d *driver) exchange(grant, target, safe int) sentCall {
	d.t.Helper()
	number, sent := d.call()
	require.True(d.t, d.answer(number, replyOf(grant, target, safe)))
	return sent
}

func replyOf(grant, target, safe int) string {
	return fmt.Sprintf(`{"pools":[{"pool":"model","key":"m","grant":%d,"target":%d,"safe":%d}],"ttl_ms":5000}`, grant, target, safe)
}

func TestANewKeyWaitsForItsFirstAnswer(t *testing.T) {
	d := newDriver(t, settings())
	d.read.Waiting = 4
	d.look(0)
	require.Equal(t, 0, d.share())
	require.Equal(t, StateNone, d.r.State(d.now))
	sent := d.exchange(3, 3, 2)
	require.Equal(t, 0, sent.Pools[0].Keep)
	require.Equal(t, 4, sent.Pools[0].Wants)
	require.Equal(t, 3, d.share())
	require.Equal(t, StateLeased, d.r.State(d.now))
}

func TestALeaseEndsEarlierThanTheServiceThinks(t *testing.T) {
	d := newDriver(t, settings())
	number, _ := d.call()
	sent := d.now
	d.now += 300 * admission.Millisecond
	require.True(t, d.answer(number, replyOf(6, 6, 2)))
	require.Equal(t, sent+4500*admission.Millisecond, d.put.Until, "counted from the sending, without a tenth")
	require.Equal(t, 2, d.put.After, "and then the safe share, by the record alone")
}

func TestWithoutAServiceARecordHasItsOutageShare(t *testing.T) {
	for outage, want := range map[Outage]int{OutageSafeShare: 2, OutageLocalLimit: 6, OutageOpen: admission.MaxLimit, OutageClosed: 0} {
		set := settings()
		set.OnOutage = outage
		d := newDriver(t, set)
		number, _ := d.call()
		require.Equal(t, 0, d.share())
		d.r.Fail(d.now, number)
		d.look(0)
		require.Equal(t, want, d.share())
		require.Equal(t, StateOutage, d.r.State(d.now))
		d.read.Limit = 0
		d.look(0)
		require.Equal(t, 0, d.share(), "a closed limit stays closed")

		silent := newDriver(t, set) // nobody drives it, so the record goes by itself
		silent.now += 2500 * admission.Millisecond
		require.Equal(t, want, silent.share())
	}
}

func TestAShrinkIsToldAfterTheRecordHasIt(t *testing.T) {
	d := newDriver(t, settings())
	d.read.Used = 5
	d.exchange(6, 6, 2)
	d.exchange(6, 3, 2)
	require.Equal(t, 3, d.share(), "the record has the target at once")
	sent := d.exchange(5, 3, 2)
	require.Equal(t, 5, sent.Pools[0].Keep, "what runs above it is kept")
	d.read.Used = 2
	require.Equal(t, 3, d.exchange(3, 3, 2).Pools[0].Keep)
}

func TestOnlyTheAnswerToTheLastCallCounts(t *testing.T) {
	d := newDriver(t, settings())
	first, _ := d.call()
	d.now += second // too late
	require.False(t, d.answer(first, replyOf(6, 6, 2)))
	require.Equal(t, 1, d.r.Failures())
	second, _ := d.call()
	require.False(t, d.answer(first, replyOf(6, 6, 2)))
	require.True(t, d.answer(second, replyOf(1, 1, 1)))
	require.False(t, d.answer(second, replyOf(6, 6, 2)), "only once")
	require.Equal(t, 1, d.share())
}

func TestABadAnswerIsNone(t *testing.T) {
	good := replyOf(6, 6, 2)
	for _, text := range []string{
		"", "{", "[]", "null", good + "x", good[:len(good)-1], strings.Replace(good, `"m"`, `"n"`, 1),
		strings.Replace(good, "model", "mode", 1), strings.Replace(good, `"grant":6`, `"grant":-6`, 1),
		strings.Replace(good, `"grant":6`, `"grant":1000001`, 1), strings.Replace(good, `"grant":6`, `"grant":6.5`, 1),
		strings.Replace(good, `"grant":6,`, "", 1), strings.Replace(good, `,"ttl_ms":5000`, "", 1),
		strings.Replace(good, `5000`, `0`, 1), `{"pools":[],"ttl_ms":5000}`, `{"error":"no"}`,
		strings.Replace(good, `]`, `,{"pool":"model","key":"m","grant":1,"target":1,"safe":1}]`, 1),
		strings.Replace(good, `"ttl_ms"`, `"pools":[],"ttl_ms"`, 1),
		`{"x":` + strings.Repeat("[", 20) + strings.Repeat("]", 20) + `,` + good[1:],
	} {
		d := newDriver(t, settings())
		number, _ := d.call()
		require.False(t, d.answer(number, text), text)
		require.Equal(t, 1, d.r.Failures(), text)
		require.Equal(t, StateOutage, d.r.State(d.now), text)
	}
	d := newDriver(t, settings())
	number, _ := d.call()
	require.True(t, d.answer(number, ` { "x" : [1, {"y" : null}, "\u00e9\ud83d\ude00"] , `+good[1:]+" \n"), "a newer service may say more")
}

// While a new Redis learns, a replica that has never had a share has what it would have without the service.
func TestALearningServiceIsNoReasonToStandStill(t *testing.T) {
	d := newDriver(t, settings())
	number, _ := d.call()
	require.True(t, d.answer(number, strings.Replace(replyOf(0, 6, 6), `"ttl_ms"`, `"learning_ms":4000,"ttl_ms"`, 1)))
	require.Equal(t, 2, d.share())
	number, sent := d.call()
	require.Equal(t, 2, sent.Pools[0].Keep)
	require.True(t, d.answer(number, strings.Replace(replyOf(2, 0, 6), `"ttl_ms"`, `"learning_ms":3000,"ttl_ms"`, 1)))
	require.Equal(t, 0, d.share(), "others want it")
	number, sent = d.call()
	require.Equal(t, 0, sent.Pools[0].Keep)
	require.True(t, d.answer(number, strings.Replace(replyOf(0, 0, 6), `"ttl_ms"`, `"learning_ms":2000,"ttl_ms"`, 1)))
	require.Equal(t, 0, d.share(), "it has given its part up, and takes none again by itself")
}

// A lease that ends while a call is under way: the record may have granted more meanwhile than the call has said.
func TestAnAnswerToACallThatALeasesEndOvertookCountsNot(t *testing.T) {
	d := newDriver(t, settings())
	d.exchange(1, 1, 5)
	d.now = d.put.Until - 20*admission.Millisecond
	number, _ := d.r.Call(d.now)
	d.now = d.put.Until + 20*admission.Millisecond
	d.read.Used = 5
	require.True(t, d.answer(number, replyOf(1, 1, 5)))
	require.Equal(t, 5, d.share())
	require.Equal(t, 5, d.exchange(5, 1, 5).Pools[0].Keep)
	require.Equal(t, 1, d.share())
}

func TestAWorkerThatTakesOverGoesOn(t *testing.T) {
	d := newDriver(t, settings())
	d.read.Used, d.read.Waiting = 2, 7
	d.exchange(3, 3, 2)
	number, _ := d.call()
	state := d.r.AppendState(nil)
	old := d.r
	next, ok := Restore(d.now, settings(), state)
	require.True(t, ok)
	d.r = next
	d.look(0)
	require.Equal(t, 3, d.share())
	require.Equal(t, StateLeased, d.r.State(d.now))
	later, sent := d.call()
	require.Greater(t, later, number)
	require.Equal(t, 3, sent.Pools[0].Keep)
	require.True(t, d.answer(later, replyOf(4, 4, 2)))
	newest := d.put.Call
	old.Reply(d.now, number, []byte(replyOf(9, 9, 2)))
	old.Changes(func(s Share) bool {
		require.Less(t, s.Call, newest, "a record refuses what the old worker puts")
		return true
	})
	for _, bad := range [][]byte{nil, {9}, state[:len(state)-1], append(state, 0)} {
		_, ok := Restore(d.now, settings(), bad)
		require.False(t, ok, "%x", bad)
	}
}

// How often a replica calls has a bound that requests don't change: F4.
func TestCallsHaveABound(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := newDriver(t, settings())
		span := Duration(rapid.IntRange(1, 30).Draw(rt, "seconds")) * second
		calls := 0
		for end := d.now + span; d.now < end; {
			d.read.Used = rapid.IntRange(0, d.share()).Draw(rt, "used")
			d.read.Waiting, d.read.Refused = rapid.IntRange(0, 9).Draw(rt, "waiting"), rapid.IntRange(0, 9).Draw(rt, "refused")
			d.look(20 * admission.Millisecond)
			if d.now >= d.r.NextCall(d.now) {
				number, _ := d.r.Call(d.now)
				calls++
				grant := max(d.r.keys[mapKey("model", "m")].sentKeep, rapid.IntRange(0, 6).Draw(rt, "grant"))
				d.answer(number, replyOf(grant, rapid.IntRange(0, 6).Draw(rt, "target"), 2))
			}
		}
		seconds := int(span / second)
		require.LessOrEqual(rt, calls, 2+seconds*10/9+mostBursts+seconds)
	})
}

func TestAQuietReplicaCallsOnceASecond(t *testing.T) {
	d := newDriver(t, settings())
	d.exchange(2, 2, 2)
	began := d.now
	for range 50 {
		d.exchange(2, 2, 2)
	}
	require.InDelta(t, 50, float64(d.now-began)/float64(second), 5)
}

func TestWhatIsScarceIsAskedForAtOnce(t *testing.T) {
	d := newDriver(t, settings())
	d.exchange(2, 2, 2)
	d.read.Used, d.read.Waiting = 2, 3
	d.look(100 * admission.Millisecond)
	require.LessOrEqual(t, d.r.NextCall(d.now), d.now, "the service doesn't know of the three")
	d.exchange(2, 5, 2)
	for gap := 50 * admission.Millisecond; gap <= 800*admission.Millisecond; gap *= 2 {
		sent := d.now - 10*admission.Millisecond
		require.InDelta(t, float64(sent+gap), float64(d.r.NextCall(d.now)), float64(admission.Millisecond), "others have to give theirs up")
		d.exchange(2, 5, 2)
	}
}

// A key of a pool that has keys is let go when it has been idle for a minute, and waits again when it is asked for.
func TestAnIdleKeyIsLetGo(t *testing.T) {
	d := newDriver(t, settings())
	d.exchange(2, 2, 2)
	for range 62 {
		d.look(second)
		if d.now >= d.r.NextCall(d.now) {
			number, body := d.r.Call(d.now)
			text := replyOf(2, 2, 2)
			if !strings.Contains(string(body), `"model"`) {
				text = `{"pools":[],"ttl_ms":5000}`
			}
			require.True(t, d.answer(number, text))
		}
	}
	_, sent := d.call()
	require.Empty(t, sent.Pools)
	require.Equal(t, 0, d.share())
	d.r.Fail(d.now, d.r.number)
	d.read.Refused = 1
	d.look(0)
	require.LessOrEqual(t, d.r.NextCall(d.now), d.now+shortestGap)
	require.Equal(t, 1, d.exchange(1, 1, 2).Pools[0].Wants)
	require.Equal(t, 1, d.share())
}

func TestKeysAreNamedSoThatTheServiceTakesThem(t *testing.T) {
	names := map[string]bool{}
	for _, k := range []string{"", "m", "a b", "}{", `"\`, "\x00\x1f\x7f", "é😀", "~x", "\xff", "\xfe", strings.Repeat("k", 256),
		strings.Repeat("k", 257), strings.Repeat("k", 258), "\u2028"} {
		wire := wireKey(k)
		require.False(t, names[wire], "%q", k)
		names[wire] = true
		require.LessOrEqual(t, len(wire), maxPlainKey)
		w := writer{}
		w.string("", wire)
		var back string
		require.NoError(t, json.Unmarshal(w.text, &back), "%q: %s", k, w.text)
		require.Equal(t, wire, back)
		r := reader{text: string(w.text)}
		require.Equal(t, wire, r.string())
		require.False(t, r.bad)
	}
}

// What the service would write, this package reads.
func TestWhatEncodingJSONWritesIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		of := rapid.String().Draw(t, "key")
		asked := []*key{{pool: "p", key: of}}
		text, err := json.Marshal(map[string]any{"ttl_ms": 5000, "more": []any{1.5, nil, true, map[string]any{"a": of}},
			"pools": []any{map[string]any{"pool": "p", "key": wireKey(of), "grant": 1, "target": 2, "safe": 3, "x": "y"}}})
		if err != nil {
			t.Fatal(err)
		}
		answers, about, ok := readReply(string(text), asked)
		if !ok || answers[0] != (answer{1, 2, 3}) || about.ttl != 5*second {
			t.Fatalf("%s", text)
		}
	})
}

func FuzzReply(f *testing.F) {
	f.Add(replyOf(1, 2, 3))
	f.Add(`{"pools":[{"pool":"model","key":"\u006d","grant":0,"target":0,"safe":0}],"ttl_ms":1,"learning_ms":1}`)
	f.Fuzz(func(t *testing.T, text string) {
		asked := []*key{{pool: "model", key: "m"}}
		answers, about, ok := readReply(text, asked)
		if !ok {
			return
		}
		a := answers[0]
		if a.grant < 0 || a.grant > admission.MaxLimit || a.target < 0 || a.safe < 0 || about.ttl <= 0 || !json.Valid([]byte(text)) && !strings.ContainsAny(text, "+-.") {
			t.Fatalf("%q: %+v %+v", text, a, about)
		}
	})
}

func FuzzState(f *testing.F) {
	r := New(0, settings())
	r.Observe(0, []Reading{{Pool: "p", Key: "k", Limit: 6}})
	r.Call(0)
	f.Add(r.AppendState(nil))
	f.Fuzz(func(t *testing.T, state []byte) {
		r, ok := Restore(0, settings(), state)
		if !ok {
			return
		}
		r.Observe(1, []Reading{{Pool: "p", Key: "k", Limit: 6}})
		number, _ := r.Call(1)
		if number < 1 {
			t.Fatal(number)
		}
		again, ok := Restore(1, settings(), r.AppendState(nil))
		if !ok || again.number != number+1 {
			t.Fatalf("%x", state)
		}
	})
}

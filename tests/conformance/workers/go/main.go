// A minimal Taskyard worker in Go: the core of the contract, and the four task types that the core of the conformance kit asks
// for. It was written from docs/write-a-worker.md alone. It has no logs, no artifacts, and keeps nothing on disk.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"math/rand"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "example.com/worker/generated/taskyard/v1"
)

const (
	exitSuperseded, exitNotAccepted, exitTokenRefused = 71, 72, 73

	callDeadline             = 5 * time.Second
	acknowledgeWait          = 10 * time.Second
	firstPause, longestPause = 100 * time.Millisecond, 5 * time.Second

	largestMessage, largestOutput = 16 << 20, 256 << 10
	tasksInFrame, bytesInFrame    = 512, 1 << 20

	running     = pb.TaskStatus_TASK_STATUS_UNSPECIFIED // of an attempt that nobody told to stop
	success     = pb.TaskStatus_TASK_STATUS_SUCCESS
	failed      = pb.TaskStatus_TASK_STATUS_FAILED
	timedOut    = pb.TaskStatus_TASK_STATUS_TIMEOUT
	cancelled   = pb.TaskStatus_TASK_STATUS_CANCELLED
	interrupted = pb.TaskStatus_TASK_STATUS_INTERRUPTED
	rejected    = pb.TaskStatus_TASK_STATUS_REJECTED
)

func main() {
	w := newWorker()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go w.serve()
	go w.sendHeartbeats()
	select {
	case <-signals:
		signal.Reset() // a second one ends it at once
		w.locked(w.drain)
		time.AfterFunc(w.grace, func() { w.locked(w.interruptAll) })
	case <-w.drained:
	}
	<-w.drained
	w.deregister()
}

// A worker and all that it knows. The mutex guards everything below it.
type worker struct {
	scheduler       pb.WorkerServiceClient
	token, data, id string
	slots           int
	grace           time.Duration
	handlers        map[string]handler

	wake    chan struct{} // there is something to send
	retimed chan struct{} // the heartbeat interval is new
	drained chan struct{} // closed when nothing is left to do, or to wait for
	// Held by a heartbeat and by registering: one of the old session that comes after the new one is made would be answered
	// SESSION_SUPERSEDED, as if another process had taken the id.
	session sync.Mutex

	mu         sync.Mutex
	epoch      int64 // 0: never registered
	known      bool  // to the scheduler
	interval   time.Duration
	held       map[string]*attempt
	busy       int // slots that are taken: also by handlers of lost attempts, which are not held any more
	stream     *stream
	draining   bool
	idle, over bool // while it drains: no handler runs; nothing is waited for
}

// One attempt that the worker holds: it runs, or its result is not acknowledged. What was said on an earlier stream is said
// again, so each attempt knows the stream on which it came, its start was acknowledged, its result was reported.
type attempt struct {
	*pb.TaskAssignment
	interrupt                              context.CancelFunc
	end                                    pb.TaskStatus // what it was told to end as
	entered                                bool
	result                                 *pb.TaskResult
	receivedOn, acknowledgedOn, reportedOn *stream
}

// What was said and heard on one stream.
type stream struct {
	close             context.CancelFunc
	received, credits int64
	greeted, draining bool
}

func newWorker() *worker {
	w := &worker{
		scheduler: dial(setting("TASKYARD_ADDRESS")),
		token:     setting("TASKYARD_TOKEN"), data: setting("TASKYARD_DATA"), id: setting("TASKYARD_WORKER_ID"),
		slots: int(number("TASKYARD_CONCURRENCY")),
		grace: time.Duration(number("TASKYARD_DRAIN_GRACE_S") * float64(time.Second)),
		wake:  make(chan struct{}, 1), retimed: make(chan struct{}, 1), drained: make(chan struct{}),
		held: map[string]*attempt{}, interval: 10 * time.Second,
	}
	w.handlers = map[string]handler{
		"conformance.echo": echo, "conformance.sleep": sleep, "conformance.fail": fail, "conformance.record": w.record,
	}
	return w
}

func setting(name string) string {
	value := os.Getenv(name)
	if value == "" {
		exit(2, "%s is not set", name)
	}
	return value
}

func number(name string) float64 {
	value, err := strconv.ParseFloat(setting(name), 64)
	if err != nil {
		exit(2, "%s is %q, and should be a number", name, os.Getenv(name))
	}
	return value
}

func exit(code int, format string, values ...any) {
	log.Printf(format, values...)
	os.Exit(code)
}

func (w *worker) locked(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
}

func notify(channel chan struct{}) {
	select {
	case channel <- struct{}{}:
	default: // whoever listens will look anyway
	}
}

// Waits before the next try: twice as long each time up to the longest, by chance between half of that and all of it.
func pause(tries int) {
	length := longestPause
	if tries < 6 {
		length = firstPause << tries
	}
	time.Sleep(length/2 + time.Duration(rand.Int63n(int64(length/2))))
}

// ---- the session

// Makes the connection. gRPC by itself would wait up to two minutes between its tries; pings end one that is half-open.
func dial(address string) pb.WorkerServiceClient {
	pauses := backoff.Config{BaseDelay: firstPause, Multiplier: 2, Jitter: 0.5, MaxDelay: longestPause}
	connection, err := grpc.NewClient(address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: pauses, MinConnectTimeout: callDeadline}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(largestMessage), grpc.MaxCallSendMsgSize(largestMessage)))
	if err != nil {
		exit(2, "TASKYARD_ADDRESS is %q: %v", address, err)
	}
	return pb.NewWorkerServiceClient(connection)
}

// The context of a call, which shows the token.
func (w *worker) authorized() context.Context {
	return metadata.AppendToOutgoingContext(context.Background(), "authorization", "Bearer "+w.token)
}

// Registers, again and again until there is an answer.
func (w *worker) register() {
	w.session.Lock()
	defer w.session.Unlock()
	host, _ := os.Hostname() // for people; the worker is good without
	request := &pb.RegisterRequest{WorkerId: w.id, Host: host, MaxConcurrency: int32(w.slots)}
	for taskType := range w.handlers {
		request.Capabilities = append(request.Capabilities, taskType)
	}
	for tries := 0; ; tries++ {
		ctx, done := context.WithTimeout(w.authorized(), callDeadline)
		answer, err := w.scheduler.Register(ctx, request)
		done()
		if err == nil {
			w.locked(func() { w.begin(answer) })
			return
		}
		w.locked(func() { w.giveUpIfRefused(err) })
		log.Printf("not registered yet: %v", err)
		pause(tries)
	}
}

func (w *worker) begin(answer *pb.RegisterResponse) {
	if !answer.Accepted {
		exit(exitNotAccepted, "not accepted: %s", answer.Message)
	}
	w.epoch, w.known = answer.SessionEpoch, true
	w.setInterval(answer.HeartbeatIntervalSec)
}

func (w *worker) setInterval(seconds int32) {
	if seconds > 0 {
		w.interval = time.Duration(seconds) * time.Second
	}
	notify(w.retimed)
}

// Ends the worker when no later try can go better. A token that was good once may be good again.
func (w *worker) giveUpIfRefused(err error) {
	switch code := status.Code(err); {
	case w.epoch == 0 && (code == codes.Unauthenticated || code == codes.PermissionDenied):
		exit(exitTokenRefused, "TASKYARD_TOKEN is refused: %v", err)
	case code == codes.InvalidArgument:
		exit(exitNotAccepted, "not accepted: %v", err)
	}
}

func (w *worker) exitIfSuperseded(err error) {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.Reason == "SESSION_SUPERSEDED" {
			exit(exitSuperseded, "another process has the worker id %s: %v", w.id, err)
		}
	}
}

// Sends heartbeats, the first after half of the interval.
func (w *worker) sendHeartbeats() {
	<-w.retimed
	for soon := true; ; {
		var next time.Duration
		w.locked(func() { next = w.interval })
		if soon {
			next /= 2
		}
		select {
		case <-w.retimed:
			soon = true
		case <-time.After(next):
			soon = false
			w.heartbeat()
		}
	}
}

func (w *worker) heartbeat() {
	w.session.Lock()
	defer w.session.Unlock()
	var request *pb.HeartbeatRequest
	var open *stream
	w.locked(func() { request, open = w.signOfLife(), w.stream })
	ctx, done := context.WithTimeout(w.authorized(), callDeadline)
	defer done()
	answer, err := w.scheduler.Heartbeat(ctx, request)
	w.exitIfSuperseded(err)
	w.locked(func() {
		w.known = w.known && status.Code(err) != codes.NotFound
		if open != nil && (!w.known || err == nil && !answer.Ok) {
			open.close() // `serve` opens another
		}
		for _, token := range answer.GetLostTokens() {
			w.drop(token)
		}
	})
}

func (w *worker) signOfLife() *pb.HeartbeatRequest {
	request := &pb.HeartbeatRequest{
		WorkerId: w.id, SessionEpoch: w.epoch, ActiveTasks: int32(w.busy), Timestamp: time.Now().UnixMilli(),
	}
	for token := range w.held {
		request.AttemptTokens = append(request.AttemptTokens, token)
	}
	return request
}

// ---- the stream

// Keeps a session and its stream open.
func (w *worker) serve() {
	for tries := 0; ; tries++ {
		known := false
		w.locked(func() { known = w.known })
		if !known {
			w.register()
		}
		heard, err := w.converse()
		w.exitIfSuperseded(err)
		log.Printf("the stream ended: %v", err)
		if heard {
			tries = 0
		}
		w.locked(func() { w.known = w.known && status.Code(err) != codes.NotFound })
		pause(tries)
	}
}

// Opens a stream and goes on until it ends; says whether anything came, and why it ended.
func (w *worker) converse() (heard bool, err error) {
	ctx, end := context.WithCancel(w.authorized())
	defer end()
	call, err := w.scheduler.AssignTask(ctx)
	if err != nil {
		return false, err
	}
	s := &stream{close: end}
	w.setStream(s)
	defer w.setStream(nil)
	go w.sendFrames(ctx, s, call)
	for {
		frame, err := call.Recv()
		if err != nil {
			return heard, err
		}
		heard = true
		w.locked(func() { w.take(s, frame) })
	}
}

func (w *worker) setStream(s *stream) {
	w.locked(func() {
		w.stream = s
		w.changed()
	})
}

// Sends what there is to say until the stream ends; why it did, the receiver learns.
func (w *worker) sendFrames(ctx context.Context, s *stream, call pb.WorkerService_AssignTaskClient) {
	for {
		var frame *pb.AssignTaskRequest
		w.locked(func() { frame = w.nextFrame(s) })
		if proto.Size(frame) > 0 {
			if call.Send(frame) != nil {
				return
			}
			continue
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
			return
		}
	}
}

// The next frame of a stream; it is empty when there is nothing to say.
func (w *worker) nextFrame(s *stream) *pb.AssignTaskRequest {
	frame := &pb.AssignTaskRequest{}
	if !s.greeted {
		s.greeted = true
		frame.Hello = w.hello()
	}
	w.addAttempts(frame, s)
	if credits := s.received + int64(w.slots-w.busy); credits > s.credits && !w.draining {
		s.credits, frame.Credits = credits, credits
	}
	if w.draining && !s.draining {
		s.draining, frame.Draining = true, true
		w.changed()
	}
	return frame
}

func (w *worker) hello() *pb.Hello {
	hello := &pb.Hello{WorkerId: w.id, SessionEpoch: w.epoch}
	for token, a := range w.held {
		hello.Attempts = append(hello.Attempts, &pb.HeldAttempt{TaskId: a.TaskId, AttemptToken: token})
	}
	return hello
}

// Adds the results and starts that were not told on this stream, as many as a frame may have.
func (w *worker) addAttempts(frame *pb.AssignTaskRequest, s *stream) {
	size := 0
	for token, a := range w.held {
		if len(frame.Results)+len(frame.Acknowledgements) == tasksInFrame || size > bytesInFrame {
			return
		}
		if a.result != nil && a.reportedOn != s {
			a.reportedOn = s
			frame.Results = append(frame.Results, a.result)
			size += proto.Size(a.result)
		} else if a.result == nil && a.entered && a.acknowledgedOn != s {
			a.acknowledgedOn = s
			start := &pb.StartAcknowledgement{TaskId: a.TaskId, AttemptToken: token}
			frame.Acknowledgements = append(frame.Acknowledgements, start)
		}
	}
}

// Takes a frame in the order of its parts: a cancel may stand before its assignment.
func (w *worker) take(s *stream, frame *pb.AssignTaskResponse) {
	for _, acknowledged := range frame.ResultAcks {
		delete(w.held, acknowledged.AttemptToken)
	}
	for _, order := range frame.Cancels {
		w.cancel(order)
	}
	for _, assignment := range frame.Assignments {
		w.accept(s, assignment)
	}
	if frame.Config != nil {
		w.setInterval(frame.Config.HeartbeatIntervalSec)
	}
	w.draining = w.draining || frame.Drain
	w.changed()
}

// ---- attempts; everything here but `run` is called under the mutex

// Takes an assignment: runs it, or answers at once what cannot run. One that is held already is only counted.
func (w *worker) accept(s *stream, t *pb.TaskAssignment) {
	a := w.held[t.AttemptToken]
	if a == nil {
		a = &attempt{TaskAssignment: t}
		w.held[t.AttemptToken] = a
		w.begins(a)
	}
	if a.receivedOn != s {
		a.receivedOn = s
		s.received++
	}
}

func (w *worker) begins(a *attempt) {
	handle := w.handlers[a.TaskType]
	switch {
	case w.draining:
		a.result = a.resultOf(interrupted, "the worker is draining")
	case handle == nil:
		a.result = a.resultOf(rejected, fmt.Sprintf("this worker does not run tasks of type %s", a.TaskType))
	case a.Exclusive: // nothing could kill it before its lease ends: another attempt would run beside it
		a.result = a.ended(nil, failure{"NON_RETRYABLE", "this worker cannot kill what it runs: leave 'exclusive' out"})
	default:
		var ctx context.Context
		ctx, a.interrupt = context.WithCancel(context.Background())
		w.busy++
		go w.run(ctx, a, handle)
	}
}

func (a *attempt) resultOf(end pb.TaskStatus, message string) *pb.TaskResult {
	return &pb.TaskResult{TaskId: a.TaskId, AttemptToken: a.AttemptToken, Status: end, ErrorMessage: message}
}

// Runs a handler to its end.
func (w *worker) run(ctx context.Context, a *attempt, handle handler) {
	defer a.interrupt()
	began := time.Now()
	w.locked(func() {
		a.entered = true
		w.changed()
	})
	if a.TimeoutMs > 0 {
		late := func() { w.locked(func() { a.stop(timedOut) }) }
		defer time.AfterFunc(time.Duration(a.TimeoutMs)*time.Millisecond, late).Stop()
	}
	output, err := handle(ctx, a.TaskAssignment)
	w.locked(func() {
		w.busy--
		a.result = a.ended(output, err)
		a.result.DurationMs = time.Since(began).Milliseconds()
		w.changed()
	})
}

func (a *attempt) ended(output any, err error) *pb.TaskResult {
	if a.end != running {
		return a.resultOf(a.end, "the handler was told to stop")
	}
	var encoded []byte
	if err == nil {
		encoded, err = json.Marshal(output)
	}
	if len(encoded) > largestOutput {
		err = failure{"NON_RETRYABLE", fmt.Sprintf("the output has %d bytes of at most %d", len(encoded), largestOutput)}
	}
	if err == nil {
		result := a.resultOf(success, "")
		result.OutputJson = string(encoded)
		return result
	}
	result := a.resultOf(failed, err.Error())
	result.ErrorKind = "HANDLER_ERROR"
	if known, ok := err.(failure); ok {
		result.ErrorKind = known.kind
	}
	return result
}

// Tells a handler to stop; its attempt ends with the status of the first such word.
func (a *attempt) stop(end pb.TaskStatus) {
	if a.result == nil && a.end == running {
		a.end = end
		a.interrupt()
	}
}

func (w *worker) cancel(order *pb.CancelAttempt) {
	a, end := w.held[order.AttemptToken], cancelled
	if order.Reason == "timeout" {
		end = timedOut
	}
	switch {
	case order.Reason == "fenced":
		w.drop(order.AttemptToken)
	case a != nil:
		a.stop(end)
	default: // its assignment comes later, or never
		a = &attempt{TaskAssignment: &pb.TaskAssignment{TaskId: order.TaskId, AttemptToken: order.AttemptToken}}
		a.result = a.resultOf(end, "stopped before its start")
		w.held[order.AttemptToken] = a
	}
}

// Stops an attempt that is another's now; nothing more is said of it. Its slot stays taken until its handler has ended. What
// has ended already is kept until it is acknowledged.
func (w *worker) drop(token string) {
	if a := w.held[token]; a != nil && a.result == nil {
		delete(w.held, token)
		a.stop(cancelled)
	}
}

// ---- the end

// Tells the sender that there may be something to say, and main when all is done.
func (w *worker) changed() {
	notify(w.wake)
	if !w.draining || w.busy > 0 {
		return
	}
	if !w.idle {
		w.idle = true
		time.AfterFunc(acknowledgeWait, func() { w.locked(w.finish) })
	}
	if told := w.stream == nil || w.stream.draining; told && len(w.held) == 0 {
		w.finish()
	}
}

func (w *worker) finish() {
	if !w.over {
		w.over = true
		close(w.drained)
	}
}

func (w *worker) drain() {
	if w.epoch == 0 {
		exit(0, "stopped before it was registered")
	}
	w.draining = true
	w.changed()
}

func (w *worker) interruptAll() {
	for _, a := range w.held {
		a.stop(interrupted)
	}
}

func (w *worker) deregister() {
	w.session.Lock()
	defer w.session.Unlock()
	ctx, done := context.WithTimeout(w.authorized(), callDeadline)
	defer done()
	_, err := w.scheduler.Deregister(ctx, &pb.DeregisterRequest{WorkerId: w.id, SessionEpoch: w.epoch})
	w.exitIfSuperseded(err)
	if err != nil {
		log.Printf("not deregistered: %v", err)
	}
}

// ---- the task types

// Does one task; ends early when its context does.
type handler func(ctx context.Context, t *pb.TaskAssignment) (any, error)

// A failure of a kind.
type failure struct{ kind, message string }

func (f failure) Error() string { return f.message }

// The input of a task, `input_json` over `params`. The values stay as they came, so that no number and no letter changes.
func mapping(t *pb.TaskAssignment) (map[string]json.RawMessage, error) {
	values := map[string]json.RawMessage{}
	for name, text := range t.Params {
		values[name], _ = json.Marshal(text) // a text always can be
	}
	if t.InputJson != "" {
		if err := json.Unmarshal([]byte(t.InputJson), &values); err != nil {
			return nil, failure{"INVALID_INPUT", "the input is no JSON object: " + err.Error()}
		}
	}
	return values, nil
}

// What the types other than echo take. A json.Number may come as a text, as numbers among the params do.
type input struct {
	Key, Kind, Message string
	Seconds            json.Number
	SucceedFrom        json.Number `json:"succeed_from"`
}

func inputOf(t *pb.TaskAssignment) (in input, seconds float64, err error) {
	in = input{Kind: "HANDLER_ERROR", Message: "failed as it was told", Seconds: "0", SucceedFrom: "0"}
	values, err := mapping(t)
	if err != nil {
		return in, 0, err
	}
	encoded, _ := json.Marshal(values) // it was JSON before
	if err := json.Unmarshal(encoded, &in); err != nil {
		return in, 0, failure{"INVALID_INPUT", err.Error()}
	}
	seconds, err = in.Seconds.Float64()
	return in, seconds, err
}

func echo(_ context.Context, t *pb.TaskAssignment) (any, error) {
	return mapping(t)
}

func sleep(ctx context.Context, t *pb.TaskAssignment) (any, error) {
	_, seconds, err := inputOf(t)
	if err != nil {
		return nil, err
	}
	wait(ctx, seconds)
	return map[string]any{"slept_seconds": seconds}, nil
}

func wait(ctx context.Context, seconds float64) {
	select {
	case <-time.After(time.Duration(seconds * float64(time.Second))):
	case <-ctx.Done():
	}
}

func fail(_ context.Context, t *pb.TaskAssignment) (any, error) {
	in, _, err := inputOf(t)
	if err != nil {
		return nil, err
	}
	if from, _ := in.SucceedFrom.Int64(); from > 0 && int64(t.Attempt) >= from {
		return map[string]any{"attempt": t.Attempt}, nil
	}
	return nil, failure{in.Kind, in.Message}
}

func (w *worker) record(ctx context.Context, t *pb.TaskAssignment) (any, error) {
	in, seconds, err := inputOf(t)
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(w.data, "conformance-records"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if _, err := fmt.Fprintf(file, "%s %d\n", in.Key, t.Attempt); err != nil {
		return nil, err
	}
	wait(ctx, seconds)
	return map[string]any{"recorded": in.Key}, nil
}

// A minimal Taskyard worker in Go: the core of the contract, and the four task types that the core of the conformance kit asks
// for. It was written from docs/write-a-worker.md alone. It has no logs, no artifacts, and keeps nothing on disk.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "example.com/worker/generated/taskyard/v1"
)

const (
	exitSuperseded   = 71
	exitNotAccepted  = 72
	exitTokenRefused = 73

	callDeadline    = 5 * time.Second
	acknowledgeWait = 10 * time.Second
	firstPause      = 100 * time.Millisecond
	longestPause    = 5 * time.Second
	largestMessage  = 16 << 20
	largestOutput   = 256 << 10
	tasksInFrame    = 512
	bytesInFrame    = 1 << 20
)

func main() {
	log.SetFlags(log.Ltime | log.Lmicroseconds)
	w := newWorker()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go w.serve()
	go w.sendHeartbeats()
	select {
	case <-signals:
		signal.Reset() // a second one ends it at once
		w.drain()
		time.AfterFunc(w.grace, w.interruptAll)
	case <-w.drained:
	}
	<-w.drained
	w.deregister()
}

// A worker and all that it knows. The mutex guards everything below it.
type worker struct {
	address, token, data, id string
	slots                    int
	grace                    time.Duration

	handlers map[string]handler
	wake     chan struct{} // there is something to send
	retimed  chan struct{} // the heartbeat interval is new
	drained  chan struct{} // closed when nothing is left to do, or to wait for
	// A heartbeat of the old session that arrives while a new one is made would be answered SESSION_SUPERSEDED.
	session sync.Mutex

	mu         sync.Mutex
	connection *grpc.ClientConn
	client     pb.WorkerServiceClient
	registered bool
	epoch      int64
	interval   time.Duration
	held       map[string]*attempt
	running    int // handlers that have not ended; those of lost attempts too, which are not held any more
	stream     *stream
	draining   bool
	idle, over bool // while it drains: no handler runs; nothing is waited for
}

// One attempt that the worker holds: it runs, or its result is not acknowledged. What was said on an earlier stream is said
// again, so each attempt knows the stream on which it came, was acknowledged and was reported.
type attempt struct {
	assignment     *pb.TaskAssignment
	interrupt      context.CancelFunc
	stopped        pb.TaskStatus // what it was told to end as; none as long as it was not told to stop
	entered        bool
	result         *pb.TaskResult
	receivedOn     *stream
	acknowledgedOn *stream
	reportedOn     *stream
}

// What was said and heard on one stream.
type stream struct {
	end               context.CancelFunc
	received, credits int64
	greeted, draining bool
	heard             bool
}

func newWorker() *worker {
	w := &worker{
		address: setting("TASKYARD_ADDRESS"), token: setting("TASKYARD_TOKEN"),
		data: setting("TASKYARD_DATA"), id: setting("TASKYARD_WORKER_ID"),
		slots: int(number("TASKYARD_CONCURRENCY")),
		grace: time.Duration(number("TASKYARD_DRAIN_GRACE_S") * float64(time.Second)),
		wake:  make(chan struct{}, 1), retimed: make(chan struct{}, 1), drained: make(chan struct{}),
		held: map[string]*attempt{},
	}
	w.handlers = map[string]handler{
		"conformance.echo": echo, "conformance.sleep": sleep, "conformance.fail": fail, "conformance.record": w.record,
	}
	w.dial()
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

// ---- the connection and the session

// Opens a connection; an earlier one is closed, and its stream ends with it.
func (w *worker) dial() {
	pauses := backoff.Config{BaseDelay: firstPause, Multiplier: 2, Jitter: 0.5, MaxDelay: longestPause}
	connection, err := grpc.NewClient(w.address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: pauses, MinConnectTimeout: callDeadline}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(largestMessage), grpc.MaxCallSendMsgSize(largestMessage)))
	if err != nil {
		exit(2, "TASKYARD_ADDRESS is %q: %v", w.address, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.connection != nil {
		w.connection.Close()
	}
	w.connection, w.client = connection, pb.NewWorkerServiceClient(connection)
}

// The context of every call: it shows the token.
func (w *worker) authorized() context.Context {
	return metadata.AppendToOutgoingContext(context.Background(), "authorization", "Bearer "+w.token)
}

// Registers, again and again until there is an answer.
func (w *worker) register() {
	w.session.Lock()
	defer w.session.Unlock()
	for waits := (pause{}); ; waits.wait() {
		ctx, done := context.WithTimeout(w.authorized(), callDeadline)
		answer, err := w.caller().Register(ctx, w.announcement())
		done()
		if err == nil {
			w.begin(answer)
			return
		}
		w.giveUpIfRefused(err)
		log.Printf("not registered yet: %v", err)
	}
}

func (w *worker) caller() pb.WorkerServiceClient {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.client
}

func (w *worker) announcement() *pb.RegisterRequest {
	host, err := os.Hostname()
	if err != nil {
		log.Printf("the host's name is not known: %v", err)
	}
	request := &pb.RegisterRequest{
		WorkerId: w.id, Host: host, MaxConcurrency: int32(w.slots), Labels: map[string]string{"lang": "go"},
	}
	for taskType := range w.handlers {
		request.Capabilities = append(request.Capabilities, taskType)
	}
	return request
}

// Ends the worker when no later try can go better. A token that was good once may be good again.
func (w *worker) giveUpIfRefused(err error) {
	w.mu.Lock()
	first := w.epoch == 0
	w.mu.Unlock()
	switch code := status.Code(err); {
	case first && (code == codes.Unauthenticated || code == codes.PermissionDenied):
		exit(exitTokenRefused, "TASKYARD_TOKEN is refused: %v", err)
	case code == codes.InvalidArgument:
		exit(exitNotAccepted, "not accepted: %v", err)
	}
}

func (w *worker) begin(answer *pb.RegisterResponse) {
	if !answer.Accepted {
		exit(exitNotAccepted, "not accepted: %s", answer.Message)
	}
	w.mu.Lock()
	w.epoch, w.registered = answer.SessionEpoch, true
	w.mu.Unlock()
	w.setInterval(answer.HeartbeatIntervalSec)
}

func (w *worker) setInterval(seconds int32) {
	w.mu.Lock()
	w.interval = time.Duration(seconds) * time.Second
	w.mu.Unlock()
	signalOnce(w.retimed)
}

func signalOnce(channel chan struct{}) {
	select {
	case channel <- struct{}{}:
	default:
	}
}

// Sends heartbeats, the first of a session after half of its interval.
func (w *worker) sendHeartbeats() {
	<-w.retimed
	misses := 0
	for next := w.currentInterval() / 2; ; next = w.currentInterval() {
		select {
		case <-time.After(next):
		case <-w.retimed:
			continue
		}
		if err := w.heartbeat(); status.Code(err) != codes.DeadlineExceeded {
			misses = 0
		} else if misses++; misses == 2 {
			log.Print("two calls got no answer: the connection is given up")
			misses = 0
			w.dial()
		}
	}
}

func (w *worker) currentInterval() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.interval
}

func (w *worker) heartbeat() error {
	w.session.Lock()
	defer w.session.Unlock()
	request, open := w.signOfLife()
	ctx, done := context.WithTimeout(w.authorized(), callDeadline)
	defer done()
	answer, err := w.caller().Heartbeat(ctx, request)
	w.exitIfSuperseded(err)
	if err != nil {
		log.Printf("heartbeat: %v", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if status.Code(err) == codes.NotFound {
		w.registered = false
	}
	if open != nil && (!w.registered || err == nil && !answer.Ok) {
		open.end()
	}
	w.lose(answer.GetLostTokens())
	return err
}

func (w *worker) signOfLife() (*pb.HeartbeatRequest, *stream) {
	w.mu.Lock()
	defer w.mu.Unlock()
	request := &pb.HeartbeatRequest{
		WorkerId: w.id, SessionEpoch: w.epoch, ActiveTasks: int32(w.running), Timestamp: time.Now().UnixMilli(),
	}
	for token := range w.held {
		request.AttemptTokens = append(request.AttemptTokens, token)
	}
	return request, w.stream
}

// Stops attempts that are another's now; a result that is there already is kept until it is acknowledged.
func (w *worker) lose(tokens []string) {
	for _, token := range tokens {
		if a := w.held[token]; a != nil && a.result == nil {
			w.drop(a)
		}
	}
}

// Stops an attempt of which nothing more is said. Its slot is taken until its handler has ended.
func (w *worker) drop(a *attempt) {
	delete(w.held, a.assignment.AttemptToken)
	a.stop(pb.TaskStatus_TASK_STATUS_CANCELLED)
}

func (w *worker) exitIfSuperseded(err error) {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.Reason == "SESSION_SUPERSEDED" {
			exit(exitSuperseded, "another process has the worker id %s: %v", w.id, err)
		}
	}
}

// ---- the stream

// Keeps a session and its stream open.
func (w *worker) serve() {
	for waits := (pause{}); ; waits.wait() {
		if !w.isRegistered() {
			w.register()
		}
		heard, err := w.converse()
		w.exitIfSuperseded(err)
		log.Printf("the stream ended: %v", err)
		if heard {
			waits = pause{}
		}
		if status.Code(err) == codes.NotFound {
			w.mu.Lock()
			w.registered = false
			w.mu.Unlock()
		}
	}
}

func (w *worker) isRegistered() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.registered
}

// Opens a stream and goes on until it ends; says whether anything came and why it ended.
func (w *worker) converse() (bool, error) {
	ctx, end := context.WithCancel(w.authorized())
	defer end()
	call, err := w.caller().AssignTask(ctx)
	if err != nil {
		return false, err
	}
	s := &stream{end: end}
	w.setStream(s)
	defer w.setStream(nil)
	go w.sendFrames(ctx, s, call)
	for {
		frame, err := call.Recv()
		if err != nil {
			return s.heard, err
		}
		s.heard = true
		w.take(s, frame)
	}
}

func (w *worker) setStream(s *stream) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stream = s
	w.changed()
}

// Sends what there is to say, until the stream ends; the reader learns why.
func (w *worker) sendFrames(ctx context.Context, s *stream, call pb.WorkerService_AssignTaskClient) {
	for {
		for frame := w.nextFrame(s); frame != nil; frame = w.nextFrame(s) {
			if call.Send(frame) != nil {
				return
			}
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
			return
		}
	}
}

// The next frame of a stream, nil when there is nothing to say. To be called with no lock.
func (w *worker) nextFrame(s *stream) *pb.AssignTaskRequest {
	w.mu.Lock()
	defer w.mu.Unlock()
	frame := &pb.AssignTaskRequest{}
	if !s.greeted {
		s.greeted = true
		frame.Hello = w.hello()
	}
	w.addAttempts(frame, s)
	if credits := s.received + int64(w.slots-w.running); credits > s.credits && !w.draining {
		s.credits, frame.Credits = credits, credits
	}
	if w.draining && !s.draining {
		s.draining, frame.Draining = true, true
		w.changed()
	}
	if proto.Size(frame) == 0 {
		return nil
	}
	return frame
}

func (w *worker) hello() *pb.Hello {
	hello := &pb.Hello{WorkerId: w.id, SessionEpoch: w.epoch}
	for token, a := range w.held {
		hello.Attempts = append(hello.Attempts, &pb.HeldAttempt{TaskId: a.assignment.TaskId, AttemptToken: token})
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
			start := &pb.StartAcknowledgement{TaskId: a.assignment.TaskId, AttemptToken: token}
			frame.Acknowledgements = append(frame.Acknowledgements, start)
			size += proto.Size(start)
		}
	}
}

// Takes a frame in the order of its parts: a cancel may stand before its assignment.
func (w *worker) take(s *stream, frame *pb.AssignTaskResponse) {
	if frame.Config != nil {
		w.setInterval(frame.Config.HeartbeatIntervalSec)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, acknowledged := range frame.ResultAcks {
		delete(w.held, acknowledged.AttemptToken)
	}
	for _, order := range frame.Cancels {
		w.cancel(order)
	}
	for _, assignment := range frame.Assignments {
		w.accept(s, assignment)
	}
	w.draining = w.draining || frame.Drain
	w.changed()
}

// Tells the sender that there may be something to say, and main when all is done.
func (w *worker) changed() {
	signalOnce(w.wake)
	if !w.draining || w.running > 0 {
		return
	}
	if !w.idle {
		w.idle = true
		time.AfterFunc(acknowledgeWait, w.giveUpResults)
	}
	told := w.stream == nil || w.stream.draining
	if told && len(w.held) == 0 {
		w.finish()
	}
}

func (w *worker) finish() {
	if !w.over {
		w.over = true
		close(w.drained)
	}
}

func (w *worker) giveUpResults() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.over {
		log.Printf("%d results were not acknowledged; their tasks will run again", len(w.held))
	}
	w.finish()
}

// ---- attempts

// Tells a running handler to stop; its attempt ends with the status of the first such word.
func (a *attempt) stop(end pb.TaskStatus) {
	if a.stopped == pb.TaskStatus_TASK_STATUS_UNSPECIFIED {
		a.stopped = end
		a.interrupt()
	}
}

func (w *worker) cancel(order *pb.CancelAttempt) {
	a := w.held[order.AttemptToken]
	end := pb.TaskStatus_TASK_STATUS_CANCELLED
	if order.Reason == "timeout" {
		end = pb.TaskStatus_TASK_STATUS_TIMEOUT
	}
	switch {
	case a == nil && order.Reason != "fenced":
		absent := &pb.TaskAssignment{TaskId: order.TaskId, AttemptToken: order.AttemptToken}
		w.held[order.AttemptToken] = &attempt{assignment: absent, result: resultOf(absent, end, "cancelled before its start")}
	case a != nil && a.result == nil && order.Reason == "fenced":
		w.drop(a)
	case a != nil && a.result == nil:
		a.stop(end)
	}
}

func resultOf(t *pb.TaskAssignment, end pb.TaskStatus, message string) *pb.TaskResult {
	return &pb.TaskResult{TaskId: t.TaskId, AttemptToken: t.AttemptToken, Status: end, ErrorMessage: message}
}

// Takes an assignment: runs it, or answers at once what cannot run. One that is held already is only counted.
func (w *worker) accept(s *stream, t *pb.TaskAssignment) {
	a := w.held[t.AttemptToken]
	if a == nil {
		a = &attempt{assignment: t}
		w.held[t.AttemptToken] = a
		w.startOrReject(a)
	}
	if a.receivedOn != s {
		a.receivedOn = s
		s.received++
	}
}

func (w *worker) startOrReject(a *attempt) {
	run := w.handlers[a.assignment.TaskType]
	switch {
	case w.draining:
		a.result = resultOf(a.assignment, pb.TaskStatus_TASK_STATUS_INTERRUPTED, "the worker is draining")
	case run == nil:
		why := fmt.Sprintf("this worker does not run tasks of type %s", a.assignment.TaskType)
		a.result = resultOf(a.assignment, pb.TaskStatus_TASK_STATUS_REJECTED, why)
	default:
		var ctx context.Context
		ctx, a.interrupt = context.WithCancel(context.Background())
		w.running++
		go w.run(ctx, a, run)
	}
}

// Runs a handler and keeps its result until it is acknowledged.
func (w *worker) run(ctx context.Context, a *attempt, handle handler) {
	defer a.interrupt()
	began := time.Now()
	w.enter(a)
	if limit := a.assignment.TimeoutMs; limit > 0 {
		defer time.AfterFunc(time.Duration(limit)*time.Millisecond, func() { w.expire(a) }).Stop()
	}
	output, err := guarded(ctx, handle, a.assignment)
	w.leave(a, output, err, time.Since(began))
}

func (w *worker) expire(a *attempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a.stop(pb.TaskStatus_TASK_STATUS_TIMEOUT)
}

func (w *worker) enter(a *attempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a.entered = true
	w.changed()
}

func (w *worker) leave(a *attempt, output any, err error, took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running--
	if a.stopped == pb.TaskStatus_TASK_STATUS_UNSPECIFIED {
		a.result = ended(a.assignment, output, err)
	} else {
		a.result = resultOf(a.assignment, a.stopped, "the handler was told to stop")
	}
	a.result.DurationMs = took.Milliseconds()
	w.changed()
}

// Calls a handler; its panic is its failure, not the worker's.
func guarded(ctx context.Context, handle handler, t *pb.TaskAssignment) (output any, err error) {
	defer func() {
		if caught := recover(); caught != nil {
			err = fmt.Errorf("the handler panicked: %v", caught)
		}
	}()
	input, err := inputOf(t)
	if err != nil {
		return nil, err
	}
	return handle(ctx, t, input)
}

// The result of a handler that came to its own end.
func ended(t *pb.TaskAssignment, output any, err error) *pb.TaskResult {
	if err != nil {
		return failed(t, err)
	}
	encoded, err := json.Marshal(output)
	if err != nil {
		return failed(t, err)
	}
	if len(encoded) > largestOutput {
		why := fmt.Sprintf("the output has %d bytes; at most %d are taken", len(encoded), largestOutput)
		return failed(t, failure{"NON_RETRYABLE", why})
	}
	result := resultOf(t, pb.TaskStatus_TASK_STATUS_SUCCESS, "")
	result.OutputJson = string(encoded)
	return result
}

func failed(t *pb.TaskAssignment, err error) *pb.TaskResult {
	result := resultOf(t, pb.TaskStatus_TASK_STATUS_FAILED, err.Error())
	result.ErrorKind = "HANDLER_ERROR"
	var known failure
	if errors.As(err, &known) {
		result.ErrorKind = known.kind
	}
	return result
}

// ---- the end

func (w *worker) drain() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.draining = true
	if !w.registered {
		exit(0, "stopped before it was registered")
	}
	w.changed()
}

func (w *worker) interruptAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.held {
		if a.result == nil {
			a.stop(pb.TaskStatus_TASK_STATUS_INTERRUPTED)
		}
	}
}

func (w *worker) deregister() {
	w.session.Lock()
	defer w.session.Unlock()
	ctx, done := context.WithTimeout(w.authorized(), callDeadline)
	defer done()
	_, err := w.caller().Deregister(ctx, &pb.DeregisterRequest{WorkerId: w.id, SessionEpoch: w.epoch})
	w.exitIfSuperseded(err)
	if err != nil {
		log.Printf("not deregistered: %v", err)
	}
}

// A series of waits, each twice the one before up to the longest, by chance between half of that and all of it.
type pause struct{ length time.Duration }

func (p *pause) wait() {
	if p.length *= 2; p.length == 0 {
		p.length = firstPause
	} else if p.length > longestPause {
		p.length = longestPause
	}
	time.Sleep(p.length/2 + time.Duration(rand.Int63n(int64(p.length/2))))
}

// ---- the task types

// Does one task; ends early when its context does.
type handler func(ctx context.Context, t *pb.TaskAssignment, input mapping) (any, error)

// What a handler gets. The values stay as they came, so that no number and no letter changes.
type mapping map[string]json.RawMessage

// A failure of which more is known than that the handler failed.
type failure struct{ kind, message string }

func (f failure) Error() string { return f.message }

// The input of a task: `input_json` over `params`.
func inputOf(t *pb.TaskAssignment) (mapping, error) {
	input := mapping{}
	for name, text := range t.Params {
		encoded, err := json.Marshal(text)
		if err != nil {
			return nil, err
		}
		input[name] = encoded
	}
	if t.InputJson != "" {
		if err := json.Unmarshal([]byte(t.InputJson), &input); err != nil {
			return nil, failure{"INVALID_INPUT", "the input is no JSON object: " + err.Error()}
		}
	}
	return input, nil
}

// A text of the input, or the default where it has none.
func (m mapping) text(name, otherwise string) string {
	var text string
	if m[name] == nil {
		return otherwise
	}
	if json.Unmarshal(m[name], &text) != nil {
		return string(m[name])
	}
	return text
}

// A number of the input; params have it as a text.
func (m mapping) number(name, otherwise string) (float64, error) {
	value, err := strconv.ParseFloat(m.text(name, otherwise), 64)
	if err != nil {
		return 0, failure{"INVALID_INPUT", fmt.Sprintf("%s is %q, and should be a number", name, m.text(name, ""))}
	}
	return value, nil
}

func echo(_ context.Context, _ *pb.TaskAssignment, input mapping) (any, error) {
	return input, nil
}

func sleep(ctx context.Context, _ *pb.TaskAssignment, input mapping) (any, error) {
	seconds, err := input.number("seconds", "")
	if err != nil {
		return nil, err
	}
	return map[string]any{"slept_seconds": seconds}, waitFor(ctx, seconds)
}

func waitFor(ctx context.Context, seconds float64) error {
	select {
	case <-time.After(time.Duration(seconds * float64(time.Second))):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func fail(_ context.Context, t *pb.TaskAssignment, input mapping) (any, error) {
	from, err := input.number("succeed_from", "inf")
	if err != nil {
		return nil, err
	}
	if float64(t.Attempt) >= from {
		return map[string]any{"attempt": t.Attempt}, nil
	}
	return nil, failure{input.text("kind", "HANDLER_ERROR"), input.text("message", "failed as it was told")}
}

func (w *worker) record(ctx context.Context, t *pb.TaskAssignment, input mapping) (any, error) {
	key := input.text("key", "")
	seconds, err := input.number("seconds", "0")
	if err != nil {
		return nil, err
	}
	if err := appendLine(filepath.Join(w.data, "conformance-records"), fmt.Sprintf("%s %d\n", key, t.Attempt)); err != nil {
		return nil, err
	}
	return map[string]any{"recorded": key}, waitFor(ctx, seconds)
}

func appendLine(path, line string) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err = io.WriteString(file, line); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}

// Package interop holds the Go client, github.com/rabbitmq/amqp091-go, against the broker that
// AMQP_URL names. test_go_client.py runs it and reads its report.
package interop

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"reflect"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const patience = 10 * time.Second

func brokerURL(t *testing.T) string {
	t.Helper()
	url := os.Getenv("AMQP_URL")
	if url == "" {
		t.Fatal("AMQP_URL names no broker")
	}
	return url
}

func dial(t *testing.T) *amqp.Connection {
	t.Helper()
	connection, err := amqp.Dial(brokerURL(t))
	check(t, err)
	t.Cleanup(func() {
		if !connection.IsClosed() {
			check(t, connection.Close())
		}
	})
	return connection
}

func channelOf(t *testing.T, connection *amqp.Connection) *amqp.Channel {
	t.Helper()
	channel, err := connection.Channel()
	check(t, err)
	return channel
}

// fresh gives a channel on a connection of its own, and an exclusive queue.
func fresh(t *testing.T) (*amqp.Channel, string) {
	t.Helper()
	channel := channelOf(t, dial(t))
	return channel, privateQueue(t, channel)
}

func privateQueue(t *testing.T, channel *amqp.Channel) string {
	t.Helper()
	queue, err := channel.QueueDeclare("", false, false, true, false, nil)
	check(t, err)
	return queue.Name
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s: got %#v, want %#v", what, got, want)
	}
}

func publish(t *testing.T, channel *amqp.Channel, queue string, bodies ...string) {
	t.Helper()
	for _, body := range bodies {
		message := amqp.Publishing{Body: []byte(body)}
		check(t, channel.PublishWithContext(context.Background(), "", queue, false, false, message))
	}
}

// receive waits for the next value of any notification or delivery channel.
func receive[T any](t *testing.T, what string, source <-chan T) T {
	t.Helper()
	select {
	case value, isOpen := <-source:
		if !isOpen {
			t.Fatalf("%s: the channel was closed", what)
		}
		return value
	case <-time.After(patience):
		t.Fatalf("waited %s for %s", patience, what)
	}
	panic("unreachable")
}

func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s until %s", patience, what)
		}
	}
}

func awaitReady(t *testing.T, channel *amqp.Channel, queue string, count int) {
	t.Helper()
	until(t, fmt.Sprintf("%d messages are ready", count), func() bool {
		state, err := channel.QueueDeclarePassive(queue, false, false, true, false, nil)
		check(t, err)
		return state.Messages == count
	})
}

func wantCode(t *testing.T, err error, code int) {
	t.Helper()
	var refusal *amqp.Error
	if !errors.As(err, &refusal) || refusal.Code != code {
		t.Fatalf("got %v, want reply code %d", err, code)
	}
}

func TestPublishAndConsumeInOrder(t *testing.T) {
	channel, queue := fresh(t)
	deliveries, err := channel.Consume(queue, "", true, false, false, false, nil)
	check(t, err)
	for i := 0; i < 1000; i++ {
		publish(t, channel, queue, fmt.Sprint(i))
	}
	for i := 0; i < 1000; i++ {
		delivery := receive(t, "a delivery", deliveries)
		equal(t, "body", string(delivery.Body), fmt.Sprint(i))
		equal(t, "tag", delivery.DeliveryTag, uint64(i+1))
	}
}

func TestBodiesOfAllSizes(t *testing.T) {
	channel, queue := fresh(t)
	deliveries, err := channel.Consume(queue, "", true, false, false, false, nil)
	check(t, err)
	for _, size := range []int{0, 1, 131072 - 9, 131072 - 8, 131072 - 7, 1 << 20} {
		body := make([]byte, size)
		_, err := rand.Read(body)
		check(t, err)
		publish(t, channel, queue, string(body))
		if got := receive(t, "a delivery", deliveries).Body; !bytes.Equal(got, body) {
			t.Fatalf("a body of %d octets came as %d", size, len(got))
		}
	}
}

func TestPropertiesAndEveryHeaderType(t *testing.T) {
	channel, queue := fresh(t)
	moment := time.Unix(1_700_000_000, 0)
	headers := amqp.Table{
		"bool":    true,
		"byte":    byte(255),
		"int8":    int8(-128),
		"int16":   int16(-32768),
		"int32":   int32(-2147483648),
		"int64":   int64(9223372036854775807),
		"float32": float32(1.5),
		"float64": float64(0.1),
		"decimal": amqp.Decimal{Scale: 2, Value: 314},
		"string":  "naïve ☃",
		"bytes":   []byte{0, 255},
		"time":    moment,
		"nil":     nil,
		"table":   amqp.Table{"inner": int64(1)},
		"array":   []any{int32(1), "two", amqp.Table{"three": int16(3)}},
	}
	sent := amqp.Publishing{
		Headers: headers, ContentType: "text/plain", ContentEncoding: "utf-8",
		DeliveryMode: amqp.Persistent, Priority: 3, CorrelationId: "c", ReplyTo: "r",
		Expiration: "60000", MessageId: "m", Timestamp: moment, Type: "t", AppId: "a",
		Body: []byte("x"),
	}
	check(t, channel.PublishWithContext(context.Background(), "", queue, false, false, sent))
	awaitReady(t, channel, queue, 1)
	got, _, err := channel.Get(queue, true)
	check(t, err)
	equal(t, "headers", got.Headers, headers)
	back := amqp.Publishing{
		Headers: got.Headers, ContentType: got.ContentType, ContentEncoding: got.ContentEncoding,
		DeliveryMode: got.DeliveryMode, Priority: got.Priority, CorrelationId: got.CorrelationId,
		ReplyTo: got.ReplyTo, Expiration: got.Expiration, MessageId: got.MessageId,
		Timestamp: got.Timestamp, Type: got.Type, AppId: got.AppId, Body: got.Body,
	}
	equal(t, "properties", back, sent)
}

func TestConfirms(t *testing.T) {
	channel, queue := fresh(t)
	check(t, channel.Confirm(false))
	confirms := channel.NotifyPublish(make(chan amqp.Confirmation, 500))
	for i := 0; i < 500; i++ {
		publish(t, channel, queue, "x")
	}
	for i := 0; i < 500; i++ {
		confirm := receive(t, "a confirm", confirms)
		equal(t, "confirm", confirm, amqp.Confirmation{DeliveryTag: uint64(i + 1), Ack: true})
	}
}

func TestDeferredConfirmation(t *testing.T) {
	channel, queue := fresh(t)
	check(t, channel.Confirm(false))
	limited, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	message := amqp.Publishing{Body: []byte("x"), DeliveryMode: amqp.Persistent}
	deferred, err := channel.PublishWithDeferredConfirmWithContext(
		limited, "", queue, false, false, message)
	check(t, err)
	isAcked, err := deferred.WaitContext(limited)
	check(t, err)
	equal(t, "acked", isAcked, true)
}

func TestReturns(t *testing.T) {
	channel, _ := fresh(t)
	returns := channel.NotifyReturn(make(chan amqp.Return, 1))
	message := amqp.Publishing{Body: []byte("back"), MessageId: "m"}
	check(t, channel.PublishWithContext(
		context.Background(), "amq.direct", "nobody-listens", true, false, message))
	returned := receive(t, "the return", returns)
	equal(t, "code", returned.ReplyCode, uint16(amqp.NoRoute))
	equal(t, "text", returned.ReplyText, "NO_ROUTE")
	equal(t, "body", string(returned.Body), "back")
	equal(t, "message id", returned.MessageId, "m")
}

func TestTransactions(t *testing.T) {
	channel, queue := fresh(t)
	check(t, channel.Tx())
	publish(t, channel, queue, "dropped")
	check(t, channel.TxRollback())
	publish(t, channel, queue, "kept")
	_, isThere, err := channel.Get(queue, false)
	check(t, err)
	equal(t, "there before the commit", isThere, false)
	check(t, channel.TxCommit())
	got, isThere, err := channel.Get(queue, false)
	check(t, err)
	equal(t, "there after the commit", isThere, true)
	equal(t, "body", string(got.Body), "kept")
	check(t, got.Ack(false))
	check(t, channel.TxCommit())
}

func TestPrefetch(t *testing.T) {
	channel, queue := fresh(t)
	publish(t, channel, queue, "1", "2", "3", "4", "5")
	awaitReady(t, channel, queue, 5)
	check(t, channel.Qos(2, 0, false))
	deliveries, err := channel.Consume(queue, "", false, false, false, false, nil)
	check(t, err)
	first := receive(t, "the first delivery", deliveries)
	receive(t, "the second delivery", deliveries)
	awaitReady(t, channel, queue, 3)
	check(t, first.Ack(false))
	equal(t, "body", string(receive(t, "the third delivery", deliveries).Body), "3")
	awaitReady(t, channel, queue, 2)
}

func TestNackRejectAndRecover(t *testing.T) {
	channel, queue := fresh(t)
	publish(t, channel, queue, "x")
	deliveries, err := channel.Consume(queue, "", false, false, false, false, nil)
	check(t, err)
	first := receive(t, "the delivery", deliveries)
	equal(t, "redelivered", first.Redelivered, false)
	check(t, first.Nack(false, true))
	second := receive(t, "the nacked one", deliveries)
	equal(t, "redelivered", second.Redelivered, true)
	check(t, second.Reject(true))
	receive(t, "the rejected one", deliveries)
	check(t, channel.Recover(true))
	check(t, receive(t, "the recovered one", deliveries).Nack(false, false))
	awaitReady(t, channel, queue, 0)
}

func TestRecoverWithoutRequeueIsNotImplemented(t *testing.T) {
	channel, _ := fresh(t)
	wantCode(t, channel.Recover(false), amqp.NotImplemented)
}

func TestCancelFromBothSides(t *testing.T) {
	connection := dial(t)
	channel := channelOf(t, connection)
	queue := privateQueue(t, channel)
	deliveries, err := channel.Consume(queue, "mine", false, false, false, false, nil)
	check(t, err)
	check(t, channel.Cancel("mine", false))
	if _, isOpen := <-deliveries; isOpen {
		t.Fatal("a delivery after cancel-ok")
	}
	cancels := channel.NotifyCancel(make(chan string, 1))
	deliveries, err = channel.Consume(queue, "again", false, false, false, false, nil)
	check(t, err)
	_, err = channelOf(t, connection).QueueDelete(queue, false, false, false)
	check(t, err)
	equal(t, "tag", receive(t, "the cancel", cancels), "again")
	if _, isOpen := <-deliveries; isOpen {
		t.Fatal("a delivery from a deleted queue")
	}
}

func TestExchangeBindings(t *testing.T) {
	channel, queue := fresh(t)
	source := "interop-go-" + queue
	check(t, channel.ExchangeDeclare(source, "topic", false, true, false, false, nil))
	target := "interop-go-target-" + queue
	check(t, channel.ExchangeDeclare(target, "fanout", false, true, false, false, nil))
	check(t, channel.ExchangeBind(target, "a.#", source, false, nil))
	check(t, channel.QueueBind(queue, "", target, false, nil))
	message := amqp.Publishing{Body: []byte("x")}
	for _, key := range []string{"a.b", "b"} {
		check(t, channel.PublishWithContext(
			context.Background(), source, key, false, false, message))
	}
	awaitReady(t, channel, queue, 1)
	check(t, channel.QueueUnbind(queue, "", target, nil))
	err := channel.ExchangeDeclarePassive(source, "topic", false, true, false, false, nil)
	wantCode(t, err, amqp.NotFound)
}

func TestErrorsHaveTheirCodes(t *testing.T) {
	connection := dial(t)
	cases := map[int]func(*amqp.Channel) error{
		amqp.NotFound: func(channel *amqp.Channel) error {
			_, err := channel.QueueDeclarePassive("no-such-queue", false, false, false, false, nil)
			return err
		},
		amqp.AccessRefused: func(channel *amqp.Channel) error {
			return channel.ExchangeDeclare("amq.mine", "direct", false, false, false, false, nil)
		},
		amqp.PreconditionFailed: func(channel *amqp.Channel) error {
			return channel.ExchangeDeclare("amq.direct", "fanout", true, false, false, false, nil)
		},
	}
	for code, operation := range cases {
		wantCode(t, operation(channelOf(t, connection)), code)
	}
	equal(t, "connection closed", connection.IsClosed(), false)
}

func TestAConnectionErrorAndReconnecting(t *testing.T) {
	connection := dial(t)
	channel := channelOf(t, connection)
	closed := connection.NotifyClose(make(chan *amqp.Error, 1))
	queue := privateQueue(t, channel)
	message := amqp.Publishing{Body: []byte("now")}
	check(t, channel.PublishWithContext(context.Background(), "", queue, false, true, message))
	equal(t, "code", receive(t, "the close", closed).Code, amqp.NotImplemented)
	again, queue := fresh(t)
	publish(t, again, queue, "back")
	awaitReady(t, again, queue, 1)
}

func TestWrongPassword(t *testing.T) {
	uri, err := amqp.ParseURI(brokerURL(t))
	check(t, err)
	uri.Password = "wrong"
	if _, err := amqp.Dial(uri.String()); !errors.Is(err, amqp.ErrCredentials) {
		wantCode(t, err, amqp.AccessRefused)
	}
}

func TestUpdateSecret(t *testing.T) {
	connection := dial(t)
	check(t, connection.UpdateSecret("new secret", "rotation"))
	privateQueue(t, channelOf(t, connection))
}

package hareline.interop;

import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.ShutdownSignalException;
import com.rabbitmq.client.impl.AMQConnection;
import com.rabbitmq.client.impl.AMQImpl;
import com.rabbitmq.client.impl.Frame;
import java.nio.ByteBuffer;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Frames that a sane client never sends, written through the client's own frame encoder. */
class FrameErrorTest extends BrokerCase {
  private AMQConnection wire;
  private int number;

  @BeforeEach
  void findTheWire() {
    wire = (AMQConnection) connection;
    number = channel.getChannelNumber();
  }

  private interface Frames {
    void write() throws Exception;
  }

  private ShutdownSignalException assertFails(int code, Frames frames) throws Exception {
    ShutdownSignalException signal =
        assertConnectionCloses(
            channel,
            code,
            () -> {
              frames.write();
              wire.flush();
            });
    assertTrue(signal.isHardError());
    return signal;
  }

  private void method(int on, com.rabbitmq.client.impl.Method method) throws Exception {
    wire.writeFrame(method.toFrame(on));
  }

  private com.rabbitmq.client.impl.Method publish() {
    return new AMQImpl.Basic.Publish(0, "", queue, false, false);
  }

  private void header(int on, long bodySize) throws Exception {
    wire.writeFrame(new BasicProperties().toFrame(on, bodySize));
  }

  private void body(int on, int size) throws Exception {
    wire.writeFrame(frame(AMQP.FRAME_BODY, on, new byte[size]));
  }

  /** A frame to write; the constructor that takes an array is for frames that were read. */
  private static Frame frame(int type, int on, byte[] payload) {
    return new Frame(type, on, ByteBuffer.wrap(payload));
  }

  @Test
  void aHeaderInPlaceOfAMethodIsUnexpected() throws Exception {
    assertFails(505, () -> header(number, 10));
  }

  @Test
  void aBodyInPlaceOfAMethodIsUnexpected() throws Exception {
    assertFails(505, () -> body(number, 10));
  }

  @Test
  void aMethodInPlaceOfAHeaderIsUnexpected() throws Exception {
    assertFails(
        505,
        () -> {
          method(number, publish());
          method(number, publish());
        });
  }

  @Test
  void aBodyInPlaceOfAHeaderIsUnexpected() throws Exception {
    assertFails(
        505,
        () -> {
          method(number, publish());
          body(number, 10);
        });
  }

  @Test
  void aMethodInPlaceOfABodyIsUnexpected() throws Exception {
    assertFails(
        505,
        () -> {
          method(number, publish());
          header(number, 10);
          method(number, publish());
        });
  }

  @Test
  void aHeaderInPlaceOfABodyIsUnexpected() throws Exception {
    assertFails(
        505,
        () -> {
          method(number, publish());
          header(number, 10);
          header(number, 10);
        });
  }

  @Test
  void aBodyAfterAnEmptyOneIsUnexpected() throws Exception {
    assertFails(
        505,
        () -> {
          method(number, publish());
          header(number, 0);
          body(number, 0);
        });
  }

  @Test
  void aHeaderOfAnotherClassIsUnexpected() throws Exception {
    byte[] channelClassHeader = {0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0};
    assertFails(
        505,
        () -> {
          method(number, publish());
          wire.writeFrame(frame(AMQP.FRAME_HEADER, number, channelClassHeader));
        });
  }

  @Test
  void aBodyLargerThanItsHeaderSaidIsAFrameError() throws Exception {
    // differs: old-long-body
    assumeFalse(brokerIsOlderThan(4), "this RabbitMQ overlooks it");
    assertFails(
        501,
        () -> {
          method(number, publish());
          header(number, 5);
          body(number, 6);
        });
  }

  @Test
  void aFrameLargerThanNegotiatedIsAFrameError() throws Exception {
    int tooLarge = connection.getFrameMax() + 1;
    assertFails(
        501,
        () -> {
          method(number, publish());
          header(number, tooLarge);
          body(number, tooLarge);
        });
  }

  @Test
  void anUnknownFrameTypeIsAFrameError() throws Exception {
    assertFails(501, () -> wire.writeFrame(frame(5, number, new byte[] {1, 2, 3})));
  }

  @Test
  void aHeartbeatOnAChannelIsUnexpected() throws Exception {
    assertFails(505, () -> wire.writeFrame(frame(AMQP.FRAME_HEARTBEAT, number, new byte[0])));
  }

  @Test
  void aMethodOnAnUnopenedChannelIsAChannelError() throws Exception {
    assertFails(504, () -> method(77, new AMQImpl.Queue.Purge(0, queue, false)));
  }

  @Test
  void openingAChannelTwiceIsAChannelError() throws Exception {
    assertFails(504, () -> method(number, new AMQImpl.Channel.Open("")));
  }

  @Test
  void moreChannelsThanTheMaximumAreNotAllowed() throws Exception {
    ConnectionFactory factory = factory();
    factory.setRequestedChannelMax(2);
    wire = (AMQConnection) open(factory);
    wire.createChannel();
    channel = wire.createChannel();
    ShutdownSignalException signal = assertFails(530, () -> method(3, new AMQImpl.Channel.Open("")));
    assertTrue(signal.getMessage().contains("NOT_ALLOWED"), signal.getMessage());
  }

  @Test
  void aMethodOfAnotherClassOnChannelZeroIsAChannelError() throws Exception {
    assertFails(504, () -> method(0, new AMQImpl.Queue.Purge(0, queue, false)));
  }

  @Test
  void aConnectionMethodOnAChannelIsInvalid() throws Exception {
    assertFails(503, () -> method(number, new AMQImpl.Connection.Open("/", "", false)));
  }

  @Test
  void aBrokenConnectionLeavesTheBrokerWellForOthers() throws Exception {
    for (int i = 0; i < 5; i++) {
      AMQConnection broken = (AMQConnection) open(factory());
      Channel onIt = broken.createChannel();
      broken.writeFrame(frame(AMQP.FRAME_BODY, onIt.getChannelNumber(), new byte[100]));
      broken.flush();
      until(() -> !broken.isOpen(), "the server closes the connection");
    }
    channel.basicPublish("", queue, null, bytes("well"));
    awaitReady(queue, 1);
  }
}

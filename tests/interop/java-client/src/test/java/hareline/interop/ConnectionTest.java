package hareline.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.AuthenticationFailureException;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.PossibleAuthenticationFailureException;
import com.rabbitmq.client.ShutdownSignalException;
import com.rabbitmq.client.impl.Frame;
import com.rabbitmq.client.impl.FrameHandler;
import com.rabbitmq.client.impl.FrameHandlerFactory;
import com.rabbitmq.client.impl.SocketFrameHandler;
import com.rabbitmq.client.impl.SocketFrameHandlerFactory;
import java.io.IOException;
import java.net.Socket;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import javax.net.SocketFactory;
import org.junit.jupiter.api.Test;

/** Handshake, channel numbers, heartbeats, and what survives which error. */
class ConnectionTest extends BrokerCase {
  @Test
  void theServerNamesItselfAndItsCapabilities() {
    Map<String, Object> properties = connection.getServerProperties();
    assertEquals("RabbitMQ", properties.get("product").toString());
    assertTrue(properties.get("version").toString().matches("\\d+\\.\\d+\\.\\d+.*"));
    assertNotNull(properties.get("cluster_name"));
    assertTrue(properties.get("capabilities") instanceof Map);
    Map<?, ?> capabilities = (Map<?, ?>) properties.get("capabilities");
    for (String each :
        List.of(
            "publisher_confirms",
            "exchange_exchange_bindings",
            "basic.nack",
            "consumer_cancel_notify",
            "connection.blocked",
            "consumer_priorities",
            "authentication_failure_close",
            "per_consumer_qos",
            "direct_reply_to")) {
      assertEquals(true, capabilities.get(each), each);
    }
  }

  @Test
  void aWrongPasswordIsRefusedInWords() {
    ConnectionFactory factory = factory();
    factory.setPassword("wrong");
    AuthenticationFailureException refused =
        assertThrows(AuthenticationFailureException.class, factory::newConnection);
    assertTrue(refused.getMessage().contains("ACCESS_REFUSED"), refused.getMessage());
    assertTrue(refused.getMessage().toLowerCase(Locale.ROOT).contains("auth"));
  }

  @Test
  void aClientWithoutTheCapabilityIsJustDropped() {
    ConnectionFactory factory = factory();
    factory.setPassword("wrong");
    factory.setClientProperties(new HashMap<>());
    assertThrows(PossibleAuthenticationFailureException.class, factory::newConnection);
  }

  @Test
  void anUnknownVirtualHostIsNotAllowed() {
    ConnectionFactory factory = factory();
    factory.setVirtualHost("no-such-vhost");
    IOException refused = assertThrows(IOException.class, factory::newConnection);
    AMQP.Connection.Close close =
        (AMQP.Connection.Close) ((ShutdownSignalException) refused.getCause()).getReason();
    assertEquals(530, close.getReplyCode());
  }

  @Test
  void aFrameMaxBelowTheMinimumIsNotAllowed() throws Exception {
    ConnectionFactory factory = factory();
    factory.setRequestedFrameMax(1_000); // large enough for the refusal itself
    IOException refused = assertThrows(IOException.class, factory::newConnection);
    Object reason = ((ShutdownSignalException) refused.getCause()).getReason();
    // differs: old-frame-max-close
    if (reason == null && brokerIsOlderThan(4)) {
      return; // RabbitMQ 3 drops the socket in a way that may overtake its close
    }
    assertEquals(530, ((AMQP.Connection.Close) reason).getReplyCode());
  }

  @Test
  void channelNumbersRunOutAndComeBack() throws Exception {
    ConnectionFactory factory = factory();
    factory.setRequestedChannelMax(10);
    Connection narrow = open(factory);
    assertEquals(10, narrow.getChannelMax());
    List<Channel> channels = new ArrayList<>();
    for (int i = 0; i < 10; i++) {
      channels.add(narrow.createChannel());
    }
    assertNull(narrow.createChannel(), "an eleventh channel");
    channels.get(4).close();
    Channel again = narrow.createChannel();
    assertEquals(5, again.getChannelNumber());
    assertNotNull(again.queueDeclare());
    assertNull(narrow.createChannel(), "an eleventh channel");
  }

  @Test
  void aChosenChannelNumberIsUsable() throws Exception {
    Channel chosen = connection.createChannel(2047);
    assertNotNull(chosen.queueDeclare());
    assertNull(connection.createChannel(2047), "the number is taken");
  }

  @Test
  void aChannelNumberMayBeReusedAfterAnError() throws Exception {
    for (int i = 0; i < 20; i++) {
      Channel victim = connection.createChannel(7);
      assertChannelCloses(victim, 404, () -> victim.queueDeclarePassive(uniqueName("missing")));
    }
    assertNotNull(connection.createChannel(7).queueDeclare());
  }

  @Test
  void aChannelErrorLeavesTheOtherChannelsAlone() throws Exception {
    Channel victim = connection.createChannel();
    assertChannelCloses(victim, 404, () -> victim.exchangeDeclarePassive(uniqueName("missing")));
    assertAlreadyClosed(victim);
    channel.basicPublish("", queue, null, bytes("x"));
    awaitReady(queue, 1);
  }

  @Test
  void whatFollowsAChannelErrorIsDiscarded() throws Exception {
    Channel victim = connection.createChannel();
    assertChannelCloses(
        victim,
        404,
        () -> {
          victim.basicPublish(uniqueName("missing"), "", null, bytes("x"));
          for (int i = 0; i < 100; i++) {
            victim.basicPublish("", queue, null, new byte[1_000]);
          }
        });
    assertEquals(0, channel.messageCount(queue));
  }

  @Test
  void aConnectionErrorClosesEveryChannelWithItsReason() throws Exception {
    Channel other = connection.createChannel();
    assertConnectionCloses(
        channel, 540, () -> channel.basicPublish("", queue, false, true, null, bytes("now")));
    until(() -> !other.isOpen(), "the other channel is closed too");
    assertEquals(connection.getCloseReason(), other.getCloseReason());
    Connection again = open(factory());
    assertNotNull(again.createChannel().queueDeclare());
  }

  @Test
  void closingTheConnectionIsCleanAndFreesExclusiveNames() throws Exception {
    String name = uniqueName("mine");
    for (int i = 0; i < 10; i++) {
      Connection shortLived = open(factory());
      shortLived.createChannel().queueDeclare(name, false, true, false, null);
      shortLived.close();
      assertTrue(shortLived.getCloseReason().isInitiatedByApplication());
    }
  }

  @Test
  void theServerSendsHeartbeatsWhenItIsIdle() throws Exception {
    CountingFactory factory = pointed(new CountingFactory());
    factory.setRequestedHeartbeat(1);
    Connection idle = open(factory);
    assertEquals(1, idle.getHeartbeat());
    until(() -> factory.heartbeatsRead.get() >= 4, "four heartbeats came");
    assertTrue(idle.isOpen());
  }

  /** Over Netty this client drops a connection on which nothing came for one whole interval. */
  @Test
  void theServerSendsOftenEnoughForNetty() throws Exception {
    List<Connection> idle = new ArrayList<>();
    for (int i = 0; i < 20; i++) {
      idle.add(openOverNetty(2));
    }
    CountingFactory counting = pointed(new CountingFactory());
    counting.setRequestedHeartbeat(2);
    open(counting);
    until(() -> counting.heartbeatsRead.get() >= 3, "three heartbeats came");
    for (Connection each : idle.subList(0, 10)) {
      each.createChannel(); // so that the last octets came at any time between two heartbeats
    }
    until(() -> counting.heartbeatsRead.get() >= 6, "three more heartbeats came");
    assertEquals(20, idle.stream().filter(Connection::isOpen).count());
  }

  /** The client hangs if connection.start comes before it has set itself up for it. */
  private Connection openOverNetty(int heartbeat) throws Exception {
    ConnectionFactory overNetty = factory();
    overNetty.netty();
    overNetty.setRequestedHeartbeat(heartbeat);
    overNetty.setHandshakeTimeout(1_000);
    for (int attempt = 1; ; attempt++) {
      try {
        return open(overNetty);
      } catch (TimeoutException late) {
        if (attempt == 5) {
          throw late;
        }
      }
    }
  }

  @Test
  void aClientThatFallsSilentIsDropped() throws Exception {
    CountingFactory factory = pointed(new CountingFactory());
    factory.setRequestedHeartbeat(1);
    factory.isSilent = true;
    Connection silent = open(factory);
    String name = uniqueName("mine");
    silent.createChannel().queueDeclare(name, false, true, false, null);
    until(() -> !silent.isOpen(), "the server drops the connection");
    assertTrue(!silent.getCloseReason().isInitiatedByApplication());
    channel.queueDeclare(name, false, true, false, null);
  }

  /** Counts the heartbeats that come in, and sends none itself when told to be silent. */
  private static final class CountingFactory extends ConnectionFactory {
    final AtomicInteger heartbeatsRead = new AtomicInteger();
    volatile boolean isSilent;

    @Override
    protected synchronized FrameHandlerFactory createFrameHandlerFactory() {
      return new SocketFrameHandlerFactory(5_000, SocketFactory.getDefault(), socket -> {}, false) {
        @Override
        public FrameHandler create(Socket socket) throws IOException {
          return new CountingHandler(socket);
        }
      };
    }

    private final class CountingHandler extends SocketFrameHandler {
      CountingHandler(Socket socket) throws IOException {
        super(socket);
      }

      @Override
      public Frame readFrame() throws IOException {
        Frame frame = super.readFrame();
        if (frame != null && frame.getType() == AMQP.FRAME_HEARTBEAT) {
          heartbeatsRead.incrementAndGet();
        }
        return frame;
      }

      @Override
      public void writeFrame(Frame frame) throws IOException {
        if (!isSilent || frame.getType() != AMQP.FRAME_HEARTBEAT) {
          super.writeFrame(frame);
        }
      }
    }
  }
}

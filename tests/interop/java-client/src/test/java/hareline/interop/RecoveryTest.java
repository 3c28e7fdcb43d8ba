package hareline.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.Recoverable;
import com.rabbitmq.client.RecoverableConnection;
import com.rabbitmq.client.RecoveryListener;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** The client's automatic recovery, after a cut in the network and after a connection error. */
class RecoveryTest extends BrokerCase {
  private CuttableProxy proxy;
  private RecoverableConnection recovering;
  private final AtomicInteger recoveries = new AtomicInteger();

  @BeforeEach
  void connectThroughTheProxy() throws Exception {
    ConnectionFactory factory = factory();
    proxy = new CuttableProxy(factory.getHost(), factory.getPort());
    factory.setHost("127.0.0.1");
    factory.setPort(proxy.port());
    factory.setAutomaticRecoveryEnabled(true);
    factory.setTopologyRecoveryEnabled(true);
    factory.setNetworkRecoveryInterval(20);
    Connection made = open(factory);
    assertTrue(made instanceof RecoverableConnection);
    recovering = (RecoverableConnection) made;
    recovering.addRecoveryListener(
        new RecoveryListener() {
          @Override
          public void handleRecovery(Recoverable recovered) {
            recoveries.incrementAndGet();
          }

          @Override
          public void handleRecoveryStarted(Recoverable started) {
            // Only the end of a recovery is of interest.
          }
        });
  }

  @AfterEach
  void closeTheProxy() throws Exception {
    recovering.abort();
    proxy.close();
  }

  private void cutAndAwaitRecovery() throws Exception {
    int before = recoveries.get();
    proxy.cut();
    until(() -> recoveries.get() > before, "the connection recovered");
  }

  @Test
  void topologyAndConsumersComeBackAfterACut() throws Exception {
    Channel own = recovering.createChannel();
    String exchange = uniqueName("recovered");
    own.exchangeDeclare(exchange, "direct", false, true, null);
    String serverNamed = own.queueDeclare().getQueue();
    String named = own.queueDeclare(uniqueName("named"), false, true, true, null).getQueue();
    own.queueBind(serverNamed, exchange, "key");
    own.queueBind(named, exchange, "key");
    Inbox first = new Inbox(own, serverNamed, true);
    Inbox second = new Inbox(own, named, true);
    for (int round = 0; round < 3; round++) {
      own.basicPublish(exchange, "key", null, bytes("round " + round));
      assertEquals("round " + round, text(first.take().getBody()));
      assertEquals("round " + round, text(second.take().getBody()));
      cutAndAwaitRecovery();
    }
  }

  @Test
  void prefetchAndConfirmsComeBackAfterACut() throws Exception {
    Channel own = recovering.createChannel();
    own.basicQos(2);
    own.confirmSelect();
    String named = own.queueDeclare(uniqueName("named"), false, false, true, null).getQueue();
    Inbox inbox = new Inbox(own, named, false);
    cutAndAwaitRecovery();
    for (String each : numbers(0, 5)) {
      own.basicPublish("", named, null, bytes(each));
    }
    own.waitForConfirmsOrDie(PATIENCE_MS);
    inbox.take(2);
    awaitReady(named, 3);
    own.basicAck(0, true);
  }

  @Test
  void unackedMessagesAreDeliveredAgainAfterACut() throws Exception {
    String shared = channel.queueDeclare(uniqueName("shared"), false, false, false, null).getQueue();
    fill(shared, 3);
    Channel own = recovering.createChannel();
    Inbox inbox = new Inbox(own, shared, false);
    long oldTag = tagOf(inbox.take(3).get(0));
    cutAndAwaitRecovery();
    own.basicAck(oldTag, false);
    assertEquals(numbers(0, 3), takeRedelivered(inbox, own));
    channel.queueDelete(shared);
  }

  private static List<String> takeRedelivered(Inbox inbox, Channel own) throws Exception {
    List<String> texts = new ArrayList<>();
    for (com.rabbitmq.client.Delivery each : inbox.take(3)) {
      assertTrue(each.getEnvelope().isRedeliver());
      texts.add(text(each.getBody()));
      own.basicAck(tagOf(each), false);
    }
    return texts;
  }

  @Test
  void aConnectionErrorIsRecoveredFromToo() throws Exception {
    Channel own = recovering.createChannel();
    String named = own.queueDeclare(uniqueName("named"), false, true, false, null).getQueue();
    int before = recoveries.get();
    own.basicPublish("", named, false, true, null, bytes("immediate is refused with 540"));
    until(() -> recoveries.get() > before, "the connection recovered");
    own.basicPublish("", named, null, bytes("back"));
    until(() -> own.messageCount(named) == 1, "the message is enqueued");
  }

  /** Passes octets on between clients and the broker until it is told to cut them all off. */
  private static final class CuttableProxy {
    private final ServerSocket listener;
    private final List<Socket> sockets = new ArrayList<>();
    private final String host;
    private final int target;

    CuttableProxy(String host, int target) throws IOException {
      this.host = host;
      this.target = target;
      listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
      startDaemon(this::acceptAll);
    }

    int port() {
      return listener.getLocalPort();
    }

    synchronized void cut() throws IOException {
      for (Socket each : sockets) {
        each.close();
      }
      sockets.clear();
    }

    void close() throws IOException {
      listener.close();
      cut();
    }

    private void acceptAll() throws IOException {
      while (true) {
        Socket client = listener.accept();
        Socket server = new Socket(host, target);
        client.setTcpNoDelay(true);
        server.setTcpNoDelay(true);
        synchronized (this) {
          sockets.add(client);
          sockets.add(server);
        }
        startDaemon(() -> copy(client, server));
        startDaemon(() -> copy(server, client));
      }
    }

    private static void copy(Socket from, Socket to) throws IOException {
      try (InputStream in = from.getInputStream();
          OutputStream out = to.getOutputStream()) {
        in.transferTo(out);
      }
    }

    private interface Transfer {
      void run() throws IOException;
    }

    private static void startDaemon(Transfer transfer) {
      Thread thread =
          new Thread(
              () -> {
                try {
                  transfer.run();
                } catch (IOException closed) {
                  Thread.currentThread().interrupt(); // a closed socket is how these threads end
                }
              });
      thread.setDaemon(true);
      thread.start();
    }
  }
}

package hareline.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.AlreadyClosedException;
import com.rabbitmq.client.CancelCallback;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.ShutdownNotifier;
import com.rabbitmq.client.ShutdownSignalException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLContext;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;

/**
 * What every case here starts from: a connection, a channel, and an exclusive server-named queue.
 *
 * <p>The broker is named by the system properties {@code broker.host} and {@code broker.port}.
 * Invariant: connections opened through {@link #open} are closed when the case ends; no case waits
 * for a fixed time, only for a condition with {@link #PATIENCE_MS} as its limit.
 */
abstract class BrokerCase {
  static final long PATIENCE_MS = 10_000;

  private final List<Connection> opened = new ArrayList<>();
  protected Connection connection;
  protected Channel channel;
  protected String queue;

  interface Operation {
    void run() throws Exception;
  }

  @BeforeEach
  void openTheUsual() throws Exception {
    connection = open(factory());
    channel = connection.createChannel();
    queue = privateQueue(channel);
  }

  @AfterEach
  void closeWhatWasOpened() {
    for (Connection each : opened) {
      each.abort(5_000);
    }
  }

  /** A factory that points at the broker, with automatic recovery off. */
  static ConnectionFactory factory() {
    return pointed(new ConnectionFactory());
  }

  static <F extends ConnectionFactory> F pointed(F factory) {
    factory.setHost(System.getProperty("broker.host", "127.0.0.1"));
    factory.setPort(Integer.getInteger("broker.port", 5672));
    factory.setUsername(System.getProperty("broker.username", "guest"));
    factory.setPassword(System.getProperty("broker.password", "guest"));
    factory.setVirtualHost(System.getProperty("broker.vhost", "/"));
    factory.setAutomaticRecoveryEnabled(false);
    if (Boolean.getBoolean("broker.tls")) {
      speakTls(factory);
    }
    return factory;
  }

  /** By the JVM's own stores: javax.net.ssl.trustStore, and keyStore for the client's certificate. */
  private static void speakTls(ConnectionFactory factory) {
    try {
      factory.useSslProtocol(SSLContext.getDefault());
    } catch (NoSuchAlgorithmException unreadable) {
      throw new IllegalStateException("the stores of javax.net.ssl cannot be used", unreadable);
    }
    factory.enableHostnameVerification();
  }

  Connection open(ConnectionFactory factory) throws Exception {
    Connection made = factory.newConnection();
    opened.add(made);
    return made;
  }

  static String uniqueName(String prefix) {
    return "interop-java-" + prefix + "-" + UUID.randomUUID();
  }

  static String privateQueue(Channel channel) throws IOException {
    return channel.queueDeclare("", false, true, false, null).getQueue();
  }

  static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  static String text(byte[] body) {
    return new String(body, StandardCharsets.UTF_8);
  }

  /** Publish "0", "1", ... to the queue and wait until they are all ready. */
  void fill(String target, int count) throws Exception {
    long before = channel.messageCount(target);
    for (int i = 0; i < count; i++) {
      channel.basicPublish("", target, null, bytes(Integer.toString(i)));
    }
    awaitReady(target, before + count);
  }

  static List<String> numbers(int from, int to) {
    List<String> texts = new ArrayList<>();
    for (int i = from; i < to; i++) {
      texts.add(Integer.toString(i));
    }
    return texts;
  }

  /** Take everything that is ready, acknowledging it. */
  static List<GetResponse> drain(Channel channel, String queue) throws IOException {
    List<GetResponse> drained = new ArrayList<>();
    for (GetResponse next = channel.basicGet(queue, true);
        next != null;
        next = channel.basicGet(queue, true)) {
      drained.add(next);
    }
    return drained;
  }

  static List<String> drainTexts(Channel channel, String queue) throws IOException {
    List<String> texts = new ArrayList<>();
    for (GetResponse each : drain(channel, queue)) {
      texts.add(text(each.getBody()));
    }
    return texts;
  }

  /** Wait until the queue has exactly this many ready messages, as a channel of its own sees it. */
  void awaitReady(String target, long count) throws Exception {
    Channel watcher = connection.createChannel();
    try {
      until(() -> watcher.messageCount(target) == count, count + " messages are ready");
    } finally {
      watcher.close();
    }
  }

  static void until(Callable<Boolean> holds, String what) throws Exception {
    long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(PATIENCE_MS);
    while (!holds.call()) {
      if (System.nanoTime() > deadline) {
        fail("waited " + PATIENCE_MS + " ms until " + what);
      }
      TimeUnit.MILLISECONDS.sleep(5);
    }
  }

  /** The deliveries of one consumer, in the order they came. */
  static final class Inbox {
    final BlockingQueue<Delivery> deliveries = new LinkedBlockingQueue<>();
    final BlockingQueue<String> cancels = new LinkedBlockingQueue<>();
    final String tag;

    Inbox(Channel channel, String queue, boolean autoAck) throws IOException {
      CancelCallback cancelled = cancels::add;
      tag = channel.basicConsume(queue, autoAck, (ignored, each) -> deliveries.add(each), cancelled);
    }

    Delivery take() throws InterruptedException {
      Delivery delivery = deliveries.poll(PATIENCE_MS, TimeUnit.MILLISECONDS);
      if (delivery == null) {
        fail("waited " + PATIENCE_MS + " ms for a delivery");
      }
      return delivery;
    }

    List<Delivery> take(int count) throws InterruptedException {
      List<Delivery> taken = new ArrayList<>();
      while (taken.size() < count) {
        taken.add(take());
      }
      return taken;
    }

    List<String> takeTexts(int count) throws InterruptedException {
      List<String> texts = new ArrayList<>();
      for (Delivery each : take(count)) {
        texts.add(text(each.getBody()));
      }
      return texts;
    }

    int size() {
      return deliveries.size();
    }
  }

  static long tagOf(Delivery delivery) {
    return delivery.getEnvelope().getDeliveryTag();
  }

  /** The operation must make the server close this channel with the code; the connection lives. */
  static ShutdownSignalException assertChannelCloses(Channel victim, int code, Operation operation)
      throws Exception {
    ShutdownSignalException signal = provoke(victim, operation);
    assertTrue(!signal.isHardError(), () -> "closed the connection: " + signal.getMessage());
    AMQP.Channel.Close close = (AMQP.Channel.Close) signal.getReason();
    assertEquals(code, close.getReplyCode(), signal.getMessage());
    assertTrue(victim.getConnection().isOpen(), "the connection lives on");
    return signal;
  }

  /** The operation must make the server close the channel's connection with the code. */
  static ShutdownSignalException assertConnectionCloses(
      Channel victim, int code, Operation operation) throws Exception {
    ShutdownSignalException signal = provoke(victim.getConnection(), operation);
    AMQP.Connection.Close close = (AMQP.Connection.Close) signal.getReason();
    assertEquals(code, close.getReplyCode(), signal.getMessage());
    return signal;
  }

  private static ShutdownSignalException provoke(ShutdownNotifier victim, Operation operation)
      throws Exception {
    try {
      operation.run();
    } catch (IOException | AlreadyClosedException expected) {
      // A synchronous method reports the close to its caller too; the reason is looked up below.
    }
    until(() -> !victim.isOpen(), "the server closes it");
    return victim.getCloseReason();
  }

  static void assertAlreadyClosed(Channel victim) {
    assertThrows(AlreadyClosedException.class, () -> victim.basicQos(1));
  }

  /** True for a RabbitMQ before this major version: the reference describes a newer one. */
  boolean brokerIsOlderThan(int major) {
    String version = connection.getServerProperties().get("version").toString();
    return Integer.parseInt(version.split("\\.")[0]) < major;
  }
}

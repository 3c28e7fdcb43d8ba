package hareline.jms;

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.GetResponse;
import java.io.IOException;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.TimeoutException;

/**
 * The broker as a client without JMS sees it: how many messages are ready, what is in a queue.
 *
 * <p>Speaks AMQP 0-9-1 by RabbitMQ's Java client, so what a case asserts of the broker does not go
 * through the client that it tests. Invariant: it takes nothing that it is not asked to take.
 */
public final class Observer implements AutoCloseable {
  private final Connection connection;
  private final Channel channel;

  public Observer(Broker broker) throws IOException, TimeoutException {
    ConnectionFactory factory = new ConnectionFactory();
    factory.setHost(broker.host);
    factory.setPort(broker.port);
    factory.setUsername(broker.username);
    factory.setPassword(broker.password);
    factory.setVirtualHost(broker.vhost);
    factory.setAutomaticRecoveryEnabled(false);
    connection = factory.newConnection();
    channel = connection.createChannel();
  }

  /** A name that no other case uses. */
  public static String uniqueName(String prefix) {
    return "jms-" + prefix + "-" + UUID.randomUUID();
  }

  /** A durable queue with these arguments, bound to amq.direct by its own name. */
  public void declare(String queue, Map<String, Object> arguments) throws IOException {
    channel.queueDeclare(queue, true, false, false, arguments);
    channel.queueBind(queue, "amq.direct", queue);
  }

  public void delete(String queue) throws IOException {
    channel.queueDelete(queue);
  }

  public void publish(String queue, AMQP.BasicProperties properties, byte[] body)
      throws IOException {
    channel.basicPublish("", queue, properties, body);
  }

  /** How many messages of the queue wait for a consumer. */
  public long ready(String queue) throws IOException {
    return channel.messageCount(queue);
  }

  /** Wait until exactly this many messages wait for a consumer. */
  public void awaitReady(String queue, long count) throws Exception {
    Patience.until(() -> ready(queue) == count, count + " messages of '" + queue + "' are ready");
  }

  public boolean exists(String queue) throws IOException, TimeoutException {
    Channel own = connection.createChannel();
    try {
      own.queueDeclarePassive(queue);
    } catch (IOException absent) {
      return false;
    }
    own.close();
    return true;
  }

  /** Take the next message; null if none is ready. */
  public GetResponse take(String queue) throws IOException {
    return channel.basicGet(queue, true);
  }

  @Override
  public void close() throws IOException {
    connection.close();
  }
}

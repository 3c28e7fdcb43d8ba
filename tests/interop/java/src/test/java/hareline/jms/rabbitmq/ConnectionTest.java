package hareline.jms.rabbitmq;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.rabbitmq.jms.admin.RMQConnectionFactory;
import com.rabbitmq.jms.admin.RMQDestination;
import hareline.jms.Patience;
import jakarta.jms.Connection;
import jakarta.jms.InvalidClientIDException;
import jakarta.jms.JMSException;
import jakarta.jms.JMSSecurityException;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import java.net.ServerSocket;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.junit.jupiter.api.Test;

/** Logging in, and what the client is told when it cannot. */
class ConnectionTest extends RabbitCase {
  @Test
  void aWrongPasswordIsASecurityException() {
    RMQConnectionFactory wrong = factory();
    wrong.setPassword("not " + broker.password);
    assertThrows(JMSSecurityException.class, wrong::createConnection);
    assertThrows(
        JMSSecurityException.class, () -> factory().createConnection("nobody", "anything"));
  }

  @Test
  void anUnknownVirtualHostIsRefused() {
    RMQConnectionFactory elsewhere = factory();
    elsewhere.setVirtualHost(uniqueName("no-such-host"));
    assertThrows(JMSException.class, elsewhere::createConnection);
  }

  @Test
  void aUriSaysEverything() throws Exception {
    RMQConnectionFactory byUri = new RMQConnectionFactory();
    byUri.setUri(
        String.format(
            "amqp://%s:%s@%s:%d/%s",
            broker.username,
            broker.password,
            broker.host,
            broker.port,
            URLEncoder.encode(broker.vhost, StandardCharsets.UTF_8)));
    Session own = open(byUri).createSession(Session.AUTO_ACKNOWLEDGE);
    Queue queue = queue();
    send(own, queue, "by URI");
    assertEquals(List.of("by URI"), drained(queue, 1));
  }

  @Test
  void theNextUriIsTriedWhenOneRefuses() throws Exception {
    int nobodysPort;
    try (ServerSocket closedAtOnce = new ServerSocket(0)) {
      nobodysPort = closedAtOnce.getLocalPort();
    }
    RMQConnectionFactory several = factory();
    several.setUris(
        List.of(
            "amqp://127.0.0.1:" + nobodysPort, "amqp://" + broker.host + ":" + broker.port));
    several.setUsername(broker.username);
    several.setPassword(broker.password);
    several.setVirtualHost(broker.vhost);
    Session own = open(several).createSession(Session.AUTO_ACKNOWLEDGE);
    Queue queue = queue();
    send(own, queue, "by the second");
    assertEquals(List.of("by the second"), drained(queue, 1));
  }

  @Test
  void aClientIdIsForOneConnection() throws Exception {
    String id = uniqueName("client");
    Connection one = factory().createConnection();
    Connection two = factory().createConnection();
    try {
      one.setClientID(id);
      assertThrows(InvalidClientIDException.class, () -> two.setClientID(id));
    } finally {
      one.close();
      two.close();
    }
  }

  @Test
  void aSessionOutlivesTheErrorOfAnother() throws Exception {
    Queue queue = queue();
    String name = queue.getQueueName();
    Session failing = session(Session.AUTO_ACKNOWLEDGE);
    RMQDestination other = new RMQDestination(name, true, false, Map.of("x-max-length", 1));
    assertThrows(JMSException.class, () -> failing.createConsumer(other)); // 406
    send(queue, "by another session");
    assertEquals(List.of("by another session"), drained(queue, 1));
  }

  @Test
  void closingAConnectionGivesBackWhatItHeld() throws Exception {
    Queue queue = queue();
    fill(queue, "1", "2");
    Connection own = open();
    takeTexts(own.createSession(Session.CLIENT_ACKNOWLEDGE).createConsumer(queue), 2);
    own.close();
    observer.awaitReady(queue.getQueueName(), 2);
    assertEquals(List.of("1", "2"), drained(queue, 2));
  }

  @Test
  void manySessionsOfOneConnection() throws Exception {
    Queue queue = queue();
    BlockingQueue<String> seen = new LinkedBlockingQueue<>();
    for (int i = 0; i < 30; i++) {
      session(Session.AUTO_ACKNOWLEDGE)
          .createConsumer(queue)
          .setMessageListener(message -> seen.add(message.toString()));
    }
    send(queue, numbers(0, 90));
    Patience.until(() -> seen.size() == 90, "all have come");
  }
}

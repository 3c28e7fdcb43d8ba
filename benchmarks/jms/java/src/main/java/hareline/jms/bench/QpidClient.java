package hareline.jms.bench;

import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.qpid.client.AMQConnectionFactory;
import org.apache.qpid.client.AMQSession;

/** Apache Qpid's JMS client with its defaults, which prefetch 500 messages. */
final class QpidClient implements Client {

    @Override
    public Sender sender(Job job, String queue) throws Exception {
        Connection connection = connect(job);
        Session session = session(connection, job);
        Queue destination = destination(session, queue);
        session.createConsumer(destination).close(); // only a consumer declares and binds a queue
        MessageProducer producer = session.createProducer(destination);
        producer.setDeliveryMode(
                job.isPersistent ? DeliveryMode.PERSISTENT : DeliveryMode.NON_PERSISTENT);
        Body body = new Body(job.size);
        return new Sender() {
            @Override
            public void send(long number) throws Exception {
                if (job.isText) {
                    producer.send(session.createTextMessage(body.text(number)));
                } else {
                    BytesMessage message = session.createBytesMessage();
                    message.writeBytes(body.octets(number));
                    producer.send(message);
                }
            }

            @Override
            public void commit() throws Exception {
                session.commit();
            }

            @Override
            public void settle() throws Exception {
                ((AMQSession<?, ?>) session).sync(); // its answer comes after all that was sent
            }

            @Override
            public void close() {
                end(connection);
            }
        };
    }

    @Override
    public Receiver receiver(Job job, String queue) throws Exception {
        Connection connection = connect(job);
        Session session = session(connection, job);
        MessageConsumer consumer = session.createConsumer(destination(session, queue));
        Body body = new Body(job.size);
        if (!job.isListening) {
            connection.start();
        }
        return new Receiver() {
            @Override
            public void listen(Sink sink) throws Exception {
                consumer.setMessageListener(message -> sink.take(() -> number(message, body)));
                connection.start();
            }

            @Override
            public long receive(long timeoutMs) throws Exception {
                Message message = consumer.receive(timeoutMs);
                return message == null ? NONE : number(message, body);
            }

            @Override
            public void commit() throws Exception {
                session.commit();
            }

            @Override
            public void close() {
                end(connection);
            }
        };
    }

    private static long number(Message message, Body body) throws Exception {
        if (message instanceof TextMessage) {
            return body.number(((TextMessage) message).getText());
        }
        BytesMessage bytes = (BytesMessage) message;
        return body.number(bytes.getBodyLength(), bytes.readBytes(body.buffer()));
    }

    private static void end(Connection connection) {
        try {
            connection.close();
        } catch (JMSException error) {
            throw new IllegalStateException("a connection cannot be closed", error);
        }
    }

    private static Session session(Connection connection, Job job) throws Exception {
        return job.isTransacted
                ? connection.createSession(true, Session.SESSION_TRANSACTED)
                : connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
    }

    /** Named in the older syntax, which needs no product name: the queue is declared and bound. */
    private static Queue destination(Session session, String queue) throws Exception {
        return session.createQueue(
                "BURL:direct://amq.direct//"
                        + queue
                        + "?durable='true'&routingkey='"
                        + queue
                        + "'");
    }

    private static Connection connect(Job job) throws Exception {
        String url =
                String.format(
                        "amqp://%s:%s@bench/%s?brokerlist='tcp://%s:%d'",
                        encoded(job.user),
                        encoded(job.password),
                        job.vhost.equals("/") ? "" : encoded(job.vhost),
                        job.host,
                        job.port);
        return new AMQConnectionFactory(url).createConnection();
    }

    private static String encoded(String part) {
        return URLEncoder.encode(part, StandardCharsets.UTF_8);
    }
}

import silf.jojo.Code;

/** Every node says where it is. What nodes print arrives at the client with their names. */
public class Hello extends Code {
    @Override
    public void start() {
        System.out.println("hello from " + self().name() + ", in " + System.getProperty("user.dir"));
    }
}

import { Button } from '../components/Button'
import { Dialog } from '../components/Dialog'
import { Keys } from '../components/Keys'
import { useActiveShortcuts } from './shortcuts'

export function Help({ onClose }: { onClose: () => void }) {
  const shortcuts = useActiveShortcuts()()
  return (
    <Dialog title="Keyboard" onClose={onClose} footer={<Button onClick={onClose}>Close</Button>}>
      <dl className="hb-help">
        {shortcuts.map(({ keys, label }) => (
          <div key={keys}>
            <dt>
              <Keys keys={keys} />
            </dt>
            <dd>{label}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  )
}

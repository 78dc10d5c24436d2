import { Dialog } from '../components/Dialog'

export default function Palette({ onClose }: { onClose: () => void; onHelp: () => void }) {
  return (
    <Dialog title="Search" onClose={onClose}>
      Search of jobs, runs, screens and actions.
    </Dialog>
  )
}
